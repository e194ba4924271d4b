import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../../object-fields.ts";
import { type Causes, eachItem } from "../../../causes.ts";

const handlers = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/** Validates the handler of a probe or a lifecycle hook. `graceSeconds` is the termination grace period of the Pod. */
export function* handlerCauses(handler: unknown, path: string, graceSeconds: unknown): Causes {
  const present = handlers.filter((name) => valueAt(handler, name) !== undefined);
  const [first] = present;
  if (first === undefined) {
    yield requiredCause(path, "must specify a handler type");
    return;
  }
  const others = present.slice(1).map((name) => forbiddenCause(`${path}.${name}`, "may not specify more than 1 handler type"));
  yield* actionCauses(first, valueAt(handler, first), `${path}.${first}`, graceSeconds);
  yield* others;
}

function* actionCauses(type: string, action: unknown, path: string, graceSeconds: unknown): Causes {
  switch (type) {
    case "exec":
      yield* listAt(action, "command").length === 0 ? [requiredCause(`${path}.command`)] : [];
      return;
    case "sleep": {
      const seconds = valueAt(action, "seconds");
      if (typeof seconds !== "number" || typeof graceSeconds !== "number") return;
      if (seconds >= 0 && seconds <= graceSeconds) return;
      const detail = `must be non-negative and less than terminationGracePeriodSeconds (${graceSeconds})`;
      yield invalidCause(path, seconds, detail);
      return;
    }
    case "httpGet":
      yield* check.portReference(`${path}.port`, valueAt(action, "port"));
      yield* check.oneOf(`${path}.scheme`, valueAt(action, "scheme"), ["HTTP", "HTTPS"]);
      yield* eachItem(listAt(action, "httpHeaders"), (header) => headerCauses(`${path}.httpHeaders`, textAt(header, "name")));
      return;
    default:
      yield* check.portReference(`${path}.port`, valueAt(action, "port"));
      return;
  }
}

function headerCauses(field: string, name: string): StatusCause[] {
  if (/^[-A-Za-z0-9]+$/.test(name)) return [];
  const rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
  return [invalidCause(field, name, `${rule} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')`)];
}
