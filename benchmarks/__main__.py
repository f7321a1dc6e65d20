"""`python -m benchmarks`."""

from benchmarks.run import main

if __name__ == "__main__":  # the harness's processes import this module under another name
    main()
