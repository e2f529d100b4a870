"""Metadata of views and functions."""

from __future__ import annotations

from typing import Literal, NotRequired, Required, TypedDict

from catalogclient.types._schemas import IcebergType, Schema


class ViewRepresentation(TypedDict):
    """The query of a view in one SQL dialect."""

    type: Literal["sql"]
    sql: str
    dialect: str


ViewVersion = TypedDict(
    "ViewVersion",
    {
        "version-id": Required[int],
        "timestamp-ms": Required[int],
        "schema-id": Required[int],
        "summary": Required[dict[str, str]],
        "representations": Required[list[ViewRepresentation]],
        "default-namespace": Required[list[str]],
        "default-catalog": str,
    },
    total=False,
)

ViewLogEntry = TypedDict("ViewLogEntry", {"version-id": int, "timestamp-ms": int})

ViewMetadata = TypedDict(
    "ViewMetadata",
    {
        "view-uuid": Required[str],
        "format-version": Required[int],
        "location": Required[str],
        "current-version-id": Required[int],
        "versions": Required[list[ViewVersion]],
        "version-log": Required[list[ViewLogEntry]],
        "schemas": Required[list[Schema]],
        "properties": dict[str, str],
    },
    total=False,
)


class FunctionRepresentation(TypedDict):
    """The body of a function in one SQL dialect."""

    type: Literal["sql"]
    dialect: str
    sql: str


class FunctionParameter(TypedDict):
    """A parameter of a function."""

    type: IcebergType
    name: str
    doc: NotRequired[str]


FunctionDefinitionVersion = TypedDict(
    "FunctionDefinitionVersion",
    {
        "version-id": Required[int],
        "representations": Required[list[FunctionRepresentation]],
        "timestamp-ms": Required[int],
        "deterministic": bool,
        "on-null-input": Literal["return-null", "call"],
    },
    total=False,
)

FunctionDefinition = TypedDict(
    "FunctionDefinition",
    {
        "definition-id": Required[str],
        "parameters": Required[list[FunctionParameter]],
        "return-type": Required[IcebergType],
        "versions": Required[list[FunctionDefinitionVersion]],
        "current-version-id": Required[int],
        "function-type": Required[Literal["udf", "udtf"]],
        "specific-name": str,
        "return-nullable": bool,
        "doc": str,
    },
    total=False,
)

DefinitionVersionReference = TypedDict("DefinitionVersionReference", {"definition-id": str, "version-id": int})
DefinitionLogEntry = TypedDict(
    "DefinitionLogEntry", {"timestamp-ms": int, "definition-versions": list[DefinitionVersionReference]}
)

FunctionMetadata = TypedDict(
    "FunctionMetadata",
    {
        "function-uuid": Required[str],
        "format-version": Required[int],
        "definitions": Required[list[FunctionDefinition]],
        "definition-log": Required[list[DefinitionLogEntry]],
        "location": str,
        "properties": dict[str, str],
        "secure": bool,
        "doc": str,
    },
    total=False,
)
