"""The same trip as a plain Django, DRF and Celery app: the measure that the platform is held against."""
