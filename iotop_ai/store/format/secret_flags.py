"""Short flags that take a password, by program, and programs that take one as a plain word.

Source: each program's manual page, for flags with a password, a key or ``user:password``.
"""

from __future__ import annotations

from collections.abc import Mapping


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def _table(*rows: tuple[str, str]) -> Mapping[str, tuple[str, ...]]:
    """rows: (programs, flags), each separated by blanks."""
    return {program: tuple(flags.split()) for programs, flags in rows for program in programs.split()}


FLAGS = _table(
    (
        "mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlpump mysqlslap mysqlbinlog mysqlsh mariadb "
        "mariadb-dump mariadb-admin mariadb-import mariadb-check mariadb-backup mydumper myloader xtrabackup",
        "-p",
    ),
    ("curl", "-u -U -b -E"),
    ("http https xh xhs", "-a"),
    ("sshpass", "-p"),
    ("redis-cli redis-benchmark valkey-cli keydb-cli", "-a"),
    ("mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop", "-p"),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop", "-w"),
    ("ldappasswd", "-w -s -a"),
    ("smbclient rpcclient smbget smbcacls smbcquotas smbtree net", "-U"),
    ("7z 7za 7zr 7zz p7zip rar unrar", "-p -hp"),
    ("zip unzip zipcloak", "-P"),
    ("openssl", "-k -K -pass -passin -passout -passcerts -psk -srppass"),
    ("sqlcmd bcp osql isql tsql impala-shell", "-P"),
    ("cqlsh rabbitmqadmin cypher-shell arangosh nodetool", "-p -pw"),
    ("ipmitool ipmipower mosquitto_pub mosquitto_sub", "-P"),
    ("snmpget snmpset snmpwalk snmpbulkwalk snmpbulkget snmpgetnext snmptable", "-c -A -X"),
    ("rdesktop", "-p"),
    ("xfreerdp wlfreerdp sdl-freerdp", "/p: /pcb:"),
    ("lftp ncftp ncftpget ncftpput", "-u -p"),
    ("twine", "-p"),
    ("hydra medusa crackmapexec nxc", "-p -P"),
    ("az", "-p"),
    ("kinit", "-w"),
    ("vncserver x11vnc", "-passwd"),
    ("pdftk qpdf pdftotext", "-upw -opw"),
    ("consul nomad", "-token"),
)
LOGINS = _table(
    ("docker podman buildah skopeo nerdctl helm oras crane oc cf regctl singularity apptainer", "-p"),
    ("wandb vault hf huggingface-cli kaggle ngrok", "*"),
)
"""Flags after the subcommand ``login``; "*": every plain word after it is a secret."""
PLAIN_WORDS = words("sqlplus sqlldr exp imp expdp impdp rman wpa_passphrase htpasswd sqlcl")
"""Programs whose plain words are or contain a login."""
WITHOUT_VALUE = {"curl": "sSfLkvgIGOJNanqlRZ0123469"}
"""Letters that may come before a flag in one word, as in ``curl -sSu``."""
