"""Problems of any machine, server or host: checks themselves, configuration, files, certificates."""

from typing import Final

from neutrino.diagnosis.problems import NOTE, WARNING, Problem, declared

# --- checks -----------------------------------------------------------------------------------------------------------

CHECK_FAILED = Problem(
    "check-failed",
    "The check itself failed, so this part was not examined.",
    "The text states the cause; NEUTRINO_DEBUG=1 prints the traceback. Report it if it is a defect.",
    WARNING,
)
CHECK_TIMED_OUT = Problem(
    "check-timed-out",
    "The check did not end in its time, so this part was not examined. What it asks hangs or is overloaded.",
    "Look at the program or server that the check asks, and run neutrino doctor --only with the check's name.",
    WARNING,
)

OTHER_USER = Problem(
    "other-user",
    "Only root and the server's user can read its files, so files, certificates and the database were not examined.",
    "Run neutrino doctor as root, or as the owner of state_path.",
    WARNING,
)

# --- configuration ----------------------------------------------------------------------------------------------------

CONFIGURATION_INVALID = Problem(
    "configuration-invalid",
    "The program does not start with this configuration.",
    "Correct the option that the text names; docs/options.md lists all of them.",
)
OPTION_UNKNOWN = Problem(
    "option-unknown",
    "Nothing reads this option: what it was meant to change is not changed.",
    "Correct its name or section, or remove it.",
    WARNING,
)
OPTION_WITHOUT_EFFECT = Problem(
    "option-without-effect",
    "It is an option of Neutron that has no meaning here; the reason is in the text.",
    "Nothing has to be done; remove it when it confuses.",
    NOTE,
)
OPTIONS_CONTRADICT = Problem(
    "options-contradict",
    "Two options ask for different things, so one of them has no effect.",
    "Decide which one is meant, and change the other.",
    WARNING,
)
POLICY_INVALID = Problem(
    "policy-invalid",
    "Everyone is refused what the rule governs; if the text names no rule, everything, and the server does not start.",
    "Correct the file that the text names; `neutrino policy check FILE` checks it before it is installed.",
)
POLICY_WITHOUT_EFFECT = Problem(
    "policy-without-effect",
    "A part of the policy file does not do what it says: the default rule stays in force, or decides instead.",
    "Correct the name that the text has, or remove it; `neutrino policy check FILE` checks the file.",
    WARNING,
)

# --- files ------------------------------------------------------------------------------------------------------------

FILE_UNREADABLE = Problem(
    "file-unreadable",
    "A file that the configuration names cannot be read, so the program does not start or cannot authenticate.",
    "Create the file, or allow the program's user to read it.",
)
SECRET_READABLE = Problem(
    "secret-readable",
    "Other users of this machine can read a secret, such as a key, a credential or a password.",
    "chmod o-rwx {path}",
    WARNING,
)
STATE_UNUSABLE = Problem(
    "state-unusable",
    "The program cannot keep its files there and does not start.",
    "Create the directory with the program's user as its owner, or change state_path.",
)
DISK_FULL = Problem(
    "disk-full",
    "Nothing can be written there: the database refuses changes (503), or the agent cannot keep its state.",
    "Free space on the file system, or move what is there to another one.",
)
DISK_LOW = Problem(
    "disk-low",
    "When the file system is full, the database refuses changes, or the agent cannot keep its state.",
    "Free space on the file system; large logs are the usual reason.",
    WARNING,
)

# --- certificates -----------------------------------------------------------------------------------------------------

CERTIFICATE_UNUSABLE = Problem(
    "certificate-unusable",
    "The certificate cannot be loaded, so its listener does not start or its server is not trusted.",
    "Replace the file by a PEM file with the certificate and its chain; the key has to belong to it.",
)
CERTIFICATE_EXPIRED = Problem(
    "certificate-expired",
    "Clients refuse the connection: hosts lose the feed, or users the API.",
    "Issue a new certificate now (neutrino pki, or your own CA) and put it in place of the old one.",
)
CERTIFICATE_EXPIRES = Problem(
    "certificate-expires",
    "From that day on clients refuse the connection.",
    "Issue a new certificate (neutrino pki, or your own CA) before that day.",
    WARNING,
)
CERTIFICATE_EARLY = Problem(
    "certificate-not-yet-valid",
    "Clients refuse the connection until then; or the clock of this machine is wrong.",
    "Compare the clock of this machine with the time, else issue the certificate again.",
)

PROBLEMS: Final = declared(globals())
