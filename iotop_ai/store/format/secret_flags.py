"""Options that take a password, by program, and programs that take a password without an option.

Source: the manual page of each program, for options with a password, a key or ``user:password``.
"""

from __future__ import annotations

from collections.abc import Mapping


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def _table(*rows: tuple[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The options of each program; a row is (programs, options), each separated by blanks."""
    return {program: tuple(flags.split()) for programs, flags in rows for program in programs.split()}


PASSWORD_FLAGS = _table(
    (
        "mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlpump mysqlslap mysqlbinlog mysqlsh mariadb "
        "mariadb-dump mariadb-admin mariadb-import mariadb-check mariadb-backup mydumper myloader xtrabackup",
        "-p",
    ),
    ("curl", "-u -U -b -E --cert --proxy-cert"),
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
    ("twine beeline isql-fb useradd usermod groupadd restic snowsql", "-p"),
    ("ssh-keygen", "-P -N"),
    ("hydra medusa crackmapexec nxc", "-p -P"),
    ("az", "-p"),
    ("kinit", "-w"),
    ("vncserver x11vnc", "-passwd"),
    ("pdftk qpdf pdftotext", "-upw -opw"),
    ("consul nomad", "-token"),
)
"""Options that take a password, by program."""
LOGIN_FLAGS = _table(
    ("docker podman buildah skopeo nerdctl helm oras crane oc cf regctl singularity apptainer", "-p"),
)
"""Options that take a password after the subcommand ``login``."""
SUBCOMMANDS = _table(
    ("wandb hf huggingface-cli kaggle ngrok", "login"),
    ("vault", "login put"),
    ("mc", "set add"),
    ("poetry", "config"),
    ("pulumi", "set"),
    ("rclone", "obscure"),
)
"""Subcommands after which every word that is not an option is or contains a secret."""
PLAIN_LOGIN_PROGRAMS = words("sqlplus sqlldr exp imp expdp impdp rman wpa_passphrase htpasswd sqlcl")
"""Programs for which every word that is not an option is or contains a login."""
_LDAP = "xvnZLAtucMCIQ"
WITHOUT_VALUE = {
    "curl": "sSfLkvgIGOJNanqlRZijpBMV#:0123469",
    "zip": "rRqjmyufdevlDXogkJAczT0123456789",
    "unzip": "ojqnulLaCKMUVvptTzfcbBDEFiJNsSWXY:^A",
    **{program: _LDAP for program in PASSWORD_FLAGS if program.startswith("ldap")},
}
"""By program, the letters of options without a value, which may precede an option in the same word (``curl -sSu``)."""
