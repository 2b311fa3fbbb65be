"""`neutron._i18n`: messages are not translated."""


def _(text: str) -> str:
    return text
