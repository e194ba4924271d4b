import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";

/** A relative path that does not leave its start. */
export function localPathCauses(field: string, path: string): StatusCause[] {
  if (path.startsWith("/")) return [invalidCause(field, path, "must be a relative path")];
  return path.split("/").includes("..") ? [invalidCause(field, path, "must not contain '..'")] : [];
}
