"""HLO modules as files, and reports of their collectives."""
