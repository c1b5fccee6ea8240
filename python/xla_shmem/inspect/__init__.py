"""``xla-shmem inspect``: reports on the collectives of compiled modules.

The command reads modules and picks a report: ``totals``, ``overlap``, ``difference``, ``explanation`` or ``page``.
"""
