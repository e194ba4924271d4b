import { hostname } from "node:os";

/** A valid Node name derived from this machine's host name. */
export function machineName(): string {
  const name = hostname()
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]/g, "-")
    .replaceAll(/^[-.]+|[-.]+$/g, "");
  return name === "" ? "keelson" : name.slice(0, 63);
}
