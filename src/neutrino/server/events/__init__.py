"""Notifications after a change: messages to RabbitMQ, external events to Nova."""
