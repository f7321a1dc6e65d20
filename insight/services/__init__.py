"""What changes what this package keeps."""
