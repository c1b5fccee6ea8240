"""What compiled modules say of their collectives: ``xla-shmem inspect``.

``command`` reads modules and picks a report: ``totals``, ``overlap``, ``difference``, ``explanation``, ``page``.
"""
