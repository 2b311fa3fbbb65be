"""Situations in which a trace is compared with real packets: the cloud (`site`), what changes in it (`changes`, `faults`),
and the table (`table`). `tests/lab/test_trace_situations.py` tries them; `docs/trace.md` shows them.
"""
