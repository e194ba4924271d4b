import { invalidCause, type StatusCause, tooLongCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";

const maxIdLength = 32;

function identifierCauses(path: string, id: string): StatusCause[] {
  const causes = id.length > maxIdLength ? [tooLongCause(path, maxIdLength)] : [];
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(id)) return causes;
  const fault =
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' " +
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
  return [...causes, invalidCause(path, id, fault)];
}

/** Validates the name of an attribute or capacity of a device: an identifier, possibly after a domain and a slash. */
export function qualifiedNameCauses(path: string, name: string): StatusCause[] {
  const parts = name.split("/");
  const [domain = "", id = ""] = parts;
  if (parts.length === 1) return identifierCauses(path, domain);
  if (parts.length > 2) return [];
  return [
    ...(domain === "" ? [invalidCause(path, "", "the domain must not be empty")] : check.driverName(path, domain)),
    ...(id === "" ? [invalidCause(path, "", "the name must not be empty")] : identifierCauses(path, id)),
  ];
}

/** Validates the name of an attribute with its domain. */
export function fullyQualifiedNameCauses(path: string, name: string): StatusCause[] {
  const causes = qualifiedNameCauses(path, name);
  if (name.includes("/")) return causes;
  return [...causes, invalidCause(path, name, "a fully qualified name must be a domain and a name separated by a slash")];
}
