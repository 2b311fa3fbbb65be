"""API workers beside slow clients: those that send a request, or read an answer, slowly or never to its end.

granian reads heads without a thread, but calls the application as soon as a head is complete, and has no time limit for
bodies and answers. Here `front` gives a request one of the `api_threads` only once its body has arrived, and `watch`
closes connections that are too slow, by the kernel's counters of them (`sockets`) and the limits in `rules`.
"""
