"""What may be done to tasks, one file a use case. Only here are transactions opened and states moved.

Every statement is one round trip over arrays, locks its rows in id order, and is safe to repeat.
"""
