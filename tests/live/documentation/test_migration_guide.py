"""Runs the commands and statements of the migration guide on a database that looks like that of a Supabase project."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.authsvc.importer.reference import Reference
from tests.live import servers
from tests.live.documentation import pages
from tests.live.documentation.test_commands import imitate_source_tree, postgresql_programs, shell
from tests.settings import ENVIRONMENT

GUIDE = pages.DOCS / "how-to" / "migrate-from-supabase.md"
# A table and a trigger as applications of Supabase have them.
APPLICATION = """
CREATE TABLE public.profiles (id uuid PRIMARY KEY REFERENCES auth.users ON DELETE CASCADE);
CREATE FUNCTION public.create_profile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN INSERT INTO public.profiles VALUES (NEW.id); RETURN NEW; END';
CREATE TRIGGER on_user_created AFTER INSERT ON auth.users FOR EACH ROW EXECUTE FUNCTION public.create_profile();
ALTER TABLE auth.users ENABLE ROW LEVEL SECURITY;
"""


@pytest.fixture(scope="module")
def project() -> Iterator[Reference]:
    """The database of a project with one user who is signed in."""
    with servers.empty_database() as url:
        project = Reference(url)
        project.execute(APPLICATION)
        user_id = project.user("ada@example.com", email_confirmed_at=project.at)
        project.identity(user_id, "ada@example.com")
        project.session(user_id)
        yield project
        project.close()


def test_dump_can_be_imported(project: Reference, tmp_path: Path) -> None:
    name = f"auth_copy_{secrets.token_hex(4)}"
    commands = pages.commands(GUIDE, section="Preparation")
    lines = [line for line in commands if not line.startswith(("export ", "SOURCE="))]
    with servers.fresh_database() as target:
        variables = {
            **ENVIRONMENT,
            "PATH": f"{postgresql_programs()}:{os.environ['PATH']}",
            "DATABASE_URL": target,
            "SOURCE": project.url,
            "MAINTENANCE_URL": servers.server_url(),
            "COPY_URL": servers.server_url().replace("/postgres?", f"/{name}?"),
        }
        imitate_source_tree(tmp_path)
        try:
            shown = shell([line.replace("auth_copy", name) for line in lines], folder=tmp_path, variables=variables)
        finally:
            with psycopg.connect(servers.server_url(), autocommit=True) as connection:
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert [rows[table][0] for table in ("users", "identities", "sessions")] == ["1", "1", "1"]
    assert "dry run: nothing was written" in shown


def test_statements_find_references_to_users(project: Reference) -> None:
    [block] = pages.blocks(GUIDE, "sql")
    constraints, triggers = (statement for statement in block.split(";\n") if statement.strip())
    [(drop,)] = project.execute(constraints)
    assert drop == "ALTER TABLE profiles DROP CONSTRAINT profiles_id_fkey;"
    assert project.execute(triggers) == [("on_user_created", "create_profile()")]
    project.execute(drop)
    assert project.execute(constraints) == []
