"""Names of variables and keys whose values are secrets: not TOKENIZERS_PARALLELISM, `tokens`."""

import re

SECRET = re.compile(
    r"TOKEN(?!I|S)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE"
    r"|SSHPASS|_PWD(?![A-Z])|(?:DB|SMTP|MYSQL|PG|FTP|PROXY|USER|ADMIN|ROOT|SUDO)_?PASS(?![A-Z])",
    re.IGNORECASE,
)
