"""Replaces text that looks like a secret in everything that is written, printed, exported or copied.

The same short option takes a password in one program and a port in another, so such options are listed by program. In
doubt, a text is replaced: a hidden experiment name costs less than a visible password.
"""

from __future__ import annotations

import re
from itertools import pairwise

from iotop_ai.store.format.secret_flags import (
    LOGIN_FLAGS,
    PASSWORD_FLAGS,
    PLAIN_LOGIN_PROGRAMS,
    SUBCOMMANDS,
    WITHOUT_VALUE,
    words,
)

HIDDEN = "***"
_LONGEST = 1 << 15
"""The maximum number of characters of a text that are kept, as many as are read from /proc."""
_WORD = re.compile(r"[^\s\"'`;|&()]+")
_SECRET_TEXT = re.compile(r"passw|passphrase|secret|credential")
"""Text that makes a name secret wherever it occurs in a part of the name."""
_SECRET_END = re.compile(
    r"(?:token|apikey|api_?key|accesskey|privatekey|authkey|secretkey|accountkey|signature|pwd|"
    r"(?:ssh|pg|db|user|root|admin|ftp|smtp|ldap|key|store|http|proxy)pass)$"
)
_SECRET_PARTS = words(
    "pass passcode pw psk pin otp pat jwt sas sig dsn key auth authorization authentication "
    "bearer cookie cookies cred creds literal passin passout"
)
"""Words that make a name secret if a whole part of the name equals one of them."""
_HARMLESS = {
    "token": words("id ids len length count per max min pad eos bos unk sep mask cls image num type level"),
    "key": words("size dim dims head heads len length num padding frame frames sort partition group"),
    "auth": words("type method mode"),
    "pass": words("through count rate filter at"),
    "pin": words("memory mem device cpu cpus gpu thread threads"),
    "signature": words("name def"),
}
"""The keys are words with which a secret part of a name may end. The name is harmless if another of its parts is a word
of the value, such as "id" in --pad_token_id or "dim" in --key-dim."""
_FOLDERS = ("PWD", "OLDPWD")
"""The shell's variables for working directories. They are not passwords, although "pwd" usually means one."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}(?=[\"']?\s{0,2}[=:])")
_JOIN = re.compile(r"[\"']?\s{0,2}[=:]\s{0,2}[\"']?")
_VALUE = re.compile(r"(?:(?:bearer|basic|digest|token|negotiate)\s+)?[^\s\"'&;]+", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[^\"'\n]+")
_BARE_NAME = re.compile(
    r"(?:[\w.:/@-]*[_:.-])?(?:password|passwd|passphrase|pwd|psk|secret|token|authtoken|"
    r"api_?key|secret_?key|access_?key|private_?key)",
    re.IGNORECASE,
)
"""A word without a leading dash that precedes a secret, as in ``connect NET password X``."""
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z-]*(?:=.*)?|-[A-Za-z]")
"""An option. A word of this form is not replaced where a secret may, but need not, stand."""
_LOGIN = re.compile(r"[^\d:]:.|:.*[^\d]|%")
"""A login as user:password or user%password, but not the uid:gid of ``docker run -u 1000:1000``."""
_SPLITS = re.compile(r"[\s;|]")
"""A separator of words. A word that contains one is a command line itself, as in ``sh -c "a; b"``."""
_VARIABLE = re.compile(r"[\w.:/@-]+")
_URL_LOGIN = re.compile(r"(?<=//)[^\s/?#@]*@|(?<=//)[^\s:/@?#]*:(?!\d{1,5}(?:/|$))[^\s\"']{0,512}@")
"""The login in a URL. Its length is limited so that text with many "//" does not take quadratic time."""
_BEFORE_AT = re.compile(r"[^\s@]+")
_PRIVATE_KEY = re.compile(r"-----BEGIN.*", re.DOTALL)
_KNOWN_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w-]{0,64}[A-Z0-9])[\w-]{8,}|[srp]k_(?:live|test)_\w+|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt)-[\w-]{8,}|gh[oprsu]_\w{8,}|github_pat_\w+|xox[a-z]-[\w-]+|"
    r"xapp-[\w-]+|A(?:KIA|SIA|GPA|IDA|ROA)[A-Z0-9]{10,}|AIza[\w-]{10,}|ya29\.[\w.-]+|hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{10,}|npm_[A-Za-z0-9]{20,}|"
    r"pypi-[\w-]{8,}|do[a-z]_v1_\w+|SG\.[\w.-]{8,}|eyJ[\w-]{6,}(?:\.[\w-]*)*|hv[a-z]\.[\w-]{8,}|s\.[A-Za-z0-9]{20,}|"
    r"dckr_[a-z]+_[\w-]+|shp[a-z]{2}_\w+|whsec_\w+|nvapi-[\w-]+|r8_\w{8,}|gsk_\w{8,}|tskey-[\w-]+|key-[0-9a-f]{16,}|"
    r"AGE-SECRET-KEY-\w+|lin_api_\w+|pplx-\w+|wandb_v1_\w+|dapi[0-9a-f]{16,}"
    r")"
)
"""A token that is recognised by the prefix that its service gives to all tokens."""
_SCHEME = re.compile(r"\b(bearer|basic|digest|token|negotiate)\s+[^\s\"']{6,}", re.IGNORECASE)
_PASS = re.compile(r"\bpass:[^\s\"']+")
_GPU_UUID = r"(?:GPU|MIG|MIG-GPU)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![A-Za-z0-9+_-])"
_LONG_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9+/_-])(?!{_GPU_UUID})"
    r"(?:[0-9a-fA-F]{24,}|(?=[A-Za-z0-9+_-]*\d)[A-Za-z0-9+_-]{32,}={0,2})(?![A-Za-z0-9+_-])"
)
"""Hexadecimal or base64 text that is so long that it is replaced without a further test; not the UUID of a
GPU."""
_TOKEN = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
"""Base64 text that is replaced if it looks random."""
_MIXED = 0.35
"""A text looks random if at least this share of its pairs of neighbouring characters differ in kind (lower case, upper
case, digit), and if all three kinds occur. CamelCase reaches 0.25."""
_CHARACTER_KINDS = str.maketrans(
    {c: k for k, cs in (("a", "abcdefghijklmnopqrstuvwxyz"), ("A", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), ("0", "0123456789"))
     for c in cs}
)  # fmt: skip


def is_secret_name(name: str) -> bool:
    """Whether the value of an option, variable or parameter with this name is a secret."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    all_parts = frozenset(parts)
    for part in parts:
        if _SECRET_TEXT.search(part):
            return True
        if part in _SECRET_PARTS or _SECRET_END.search(part):
            ending = next((word for word in _HARMLESS if part.endswith(word)), None)
            if ending is None or not all_parts & _HARMLESS[ending]:
                return True
    return False


def without_secrets(text: str) -> str:
    """A text of any kind, with its secrets replaced."""
    text = text[:_LONGEST]
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    text = _URL_LOGIN.sub(HIDDEN + "@", text)
    if "thin:" in text:
        text = _BEFORE_AT.sub(_thin_login, text)
    text = _without_named_values(text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _PASS.sub(f"pass:{HIDDEN}", text)
    text = _KNOWN_TOKEN.sub(HIDDEN, text)
    text = _LONG_TOKEN.sub(HIDDEN, text)
    return _TOKEN.sub(lambda match: HIDDEN if _is_random(match[0]) else match[0], text)


def _thin_login(match: re.Match[str]) -> str:
    """The text before an "@", without the login of Oracle's thin driver: jdbc:oracle:thin:USER/PASSWORD@HOST."""
    before, thin, login = match[0].partition("thin:")
    is_login = login and match.string.startswith("@", match.end())
    return f"{before}{thin}{HIDDEN}" if is_login else match[0]


def _without_named_values(text: str) -> str:
    """The text without the values of secret names, as in NAME=VALUE, NAME: VALUE or "NAME": "VALUE", also in URLs."""
    out, done, at = [], 0, 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        join = _JOIN.match(text, at)
        if join is None or not is_secret_name(name[0]):
            continue
        header = ":" in join[0] and join[0][-1:].isspace()
        value = (_HEADER_VALUE if header else _VALUE).match(text, join.end())
        if value is not None:
            out += [text[done : join.end()], HIDDEN]
            done = at = value.end()
    return "".join((*out, text[done:]))


def _is_random(text: str) -> bool:
    kinds = text.rstrip("=").translate(_CHARACTER_KINDS)
    if not {"a", "A", "0"} <= set(kinds):
        return False
    return sum(a != b for a, b in pairwise(kinds)) >= _MIXED * (len(kinds) - 1)


class _Words:
    """Redacts the words of a command line in order, by the options of its program."""

    def __init__(self) -> None:
        self._flags: tuple[str, ...] = ()
        """The options of the program that take a password."""
        self._letters = ""
        """The letters of its options without a value."""
        self._login: tuple[str, ...] = ()
        """Its options that take a password after the subcommand ``login``."""
        self._subcommands: tuple[str, ...] = ()
        """Its subcommands after which every word that is not an option is a secret."""
        self._hides_plain_words = False
        """Whether every further word that is not an option is a secret."""
        self._next = ""
        """The kind of the next word: "must" for a secret, "may" for a secret unless the word is an option, "login" for
        a possible user:password, "" for any other word."""

    def argument(self, argument: str) -> str:
        """The redacted argument.

        The value of a secret option is replaced as a whole, even if it is a command itself.
        """
        name, equals, _ = argument.partition("=")
        if equals and name.startswith("-") and _VARIABLE.fullmatch(name) and is_secret_name(name):
            self._next = ""
            return f"{name}={HIDDEN}"
        return self.word(argument)

    def word(self, word: str) -> str:
        """The redacted word."""
        expected, self._next = self._next, ""
        if expected == "must" or (expected == "may" and not _OPTION.fullmatch(word)):
            return HIDDEN
        if expected == "login" and _LOGIN.search(word):
            return HIDDEN
        if _SPLITS.search(word.strip()):
            inner = _Words()
            inner._flags, inner._letters = self._flags, self._letters
            return _WORD.sub(lambda match: inner.word(match[0]), without_secrets(word))
        return self._option(word) if word.startswith("-") else self._plain(word)

    def _plain(self, word: str) -> str:
        name, equals, _ = word.partition("=")
        if equals and _VARIABLE.fullmatch(name) and is_secret_name(name):
            return f"{name}={HIDDEN}"
        if self._hides_plain_words:
            return HIDDEN
        program = word.rsplit("/", 1)[-1].removesuffix(".exe")
        if (
            program in PASSWORD_FLAGS
            or program in LOGIN_FLAGS
            or program in SUBCOMMANDS
            or program in PLAIN_LOGIN_PROGRAMS
        ):
            self._flags, self._login = PASSWORD_FLAGS.get(program, ()), LOGIN_FLAGS.get(program, ())
            self._subcommands = SUBCOMMANDS.get(program, ())
            self._letters, self._hides_plain_words = WITHOUT_VALUE.get(program, ""), program in PLAIN_LOGIN_PROGRAMS
            return word
        if program == "login" and self._login:
            self._flags = self._login
            return word
        if word in self._subcommands:
            self._hides_plain_words, self._flags = True, ()
            return word
        for flag in self._flags:
            if flag.startswith("/") and word.startswith(flag):
                return flag + HIDDEN
        if _BARE_NAME.fullmatch(word):
            self._next = "may"
        return without_secrets(word)

    def _option(self, word: str) -> str:
        if word in self._flags:
            self._next = "must"
            return word
        for flag in self._flags:
            if len(flag) > 2:
                if word.startswith(flag + "=") or (flag == "-hp" and word.startswith(flag)):  # rar -hpPASSWORD
                    return flag + HIDDEN
            elif not word.startswith("--") and (rest := word[1:].lstrip(self._letters)).startswith(flag[1:]):
                if len(rest) == 1:
                    self._next = "must"
                    return word
                return word[: len(word) - len(rest) + 1] + HIDDEN
        name, equals, _ = word.partition("=")
        if is_secret_name(name):
            if equals:
                return f"{name}={HIDDEN}"
            self._next = "" if ":" in name else "may"
        elif word in ("-u", "-U", "--user", "--proxy-user", "--username", "--login"):
            self._next = "login"
        return without_secrets(word)


def note_redacted(text: str) -> str:
    """A text that may quote a command line, such as the text of a mark or an event, with secrets replaced."""
    return _Words().word(text)


def variable_redacted(name: str, value: str) -> str:
    """The value of an environment variable, without anything that is or looks like a secret."""
    secret = is_secret_name(name) and name not in _FOLDERS
    return HIDDEN if value and secret else note_redacted(value)


def command_redacted(cmdline: tuple[str, ...]) -> tuple[str, ...]:
    """All arguments with secrets replaced, also within an argument that is itself a command."""
    line = _Words()
    return tuple(map(line.argument, cmdline))
