"""Traffic control: filters of a device's queueing discipline."""
