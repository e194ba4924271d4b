import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";

const handlers = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/** Validates the handler of a probe or a lifecycle hook. `graceSeconds` is the termination grace period of the Pod. */
export function handlerCauses(handler: unknown, path: string, graceSeconds: unknown): StatusCause[] {
  const present = handlers.filter((name) => valueAt(handler, name) !== undefined);
  const [first] = present;
  if (first === undefined) return [requiredCause(path, "must specify a handler type")];
  const others = present.slice(1).map((name) => forbiddenCause(`${path}.${name}`, "may not specify more than 1 handler type"));
  return [...actionCauses(first, valueAt(handler, first), `${path}.${first}`, graceSeconds), ...others];
}

function actionCauses(type: string, action: unknown, path: string, graceSeconds: unknown): StatusCause[] {
  switch (type) {
    case "exec":
      return listAt(action, "command").length === 0 ? [requiredCause(`${path}.command`)] : [];
    case "sleep": {
      const seconds = valueAt(action, "seconds");
      if (typeof seconds !== "number" || typeof graceSeconds !== "number") return [];
      if (seconds >= 0 && seconds <= graceSeconds) return [];
      const detail = `must be non-negative and less than terminationGracePeriodSeconds (${graceSeconds})`;
      return [invalidCause(path, seconds, detail)];
    }
    case "httpGet":
      return [
        ...check.portReference(`${path}.port`, valueAt(action, "port")),
        ...check.oneOf(`${path}.scheme`, valueAt(action, "scheme"), ["HTTP", "HTTPS"]),
        // kube-apiserver omits the index here.
        ...listAt(action, "httpHeaders").flatMap((header) => headerCauses(`${path}.httpHeaders`, textAt(header, "name"))),
      ];
    default:
      return check.portReference(`${path}.port`, valueAt(action, "port"));
  }
}

function headerCauses(field: string, name: string): StatusCause[] {
  if (/^[-A-Za-z0-9]+$/.test(name)) return [];
  const rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
  return [invalidCause(field, name, `${rule} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')`)];
}
