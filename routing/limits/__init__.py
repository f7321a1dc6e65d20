"""What many processes may use together only so much of: counted in Redis, checked before work is taken on."""
