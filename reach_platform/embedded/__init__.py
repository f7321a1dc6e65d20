"""PostgreSQL and Redis for one machine, started from wheels when DATABASE_URL and REDIS_URL are absent."""
