"""BGP speakers: the API, their scheduling, and the routes that they advertise."""
