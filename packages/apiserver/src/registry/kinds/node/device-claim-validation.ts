import { isJsonObject } from "@keelson/api-machinery";
import { compileExpression } from "@keelson/api-machinery/cel";
import {
  dns1123LabelFaults,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
  tooLongCause,
  tooManyCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { fullyQualifiedNameCauses } from "./device-names.ts";
import { type Causes, eachItem, repeatCauses } from "../../causes.ts";

const maxItems = 32;
const maxAlternatives = 8;

/** Validates the devices of a claim or of a claim template (DeviceClaim). */
export function* claimedDeviceCauses(path: string, devices: unknown): Causes {
  const requests = listAt(devices, "requests");
  const names = requestNames(requests);
  yield* eachNamed(`${path}.requests`, requests, maxItems, requestCauses);
  yield* each(`${path}.constraints`, listAt(devices, "constraints"), maxItems, function* (constraint, at) {
    yield* referenceCauses(`${at}.requests`, listAt(constraint, "requests"), names);
    yield* constraintCauses(constraint, at);
  });
  yield* each(`${path}.config`, listAt(devices, "config"), maxItems, function* (configuration, at) {
    yield* referenceCauses(`${at}.requests`, listAt(configuration, "requests"), names);
    yield* configurationCauses(configuration, at);
  });
}

type Check = (item: unknown, path: string) => Causes;

function* each(path: string, items: readonly unknown[], max: number, validate: Check): Causes {
  if (items.length > max) {
    yield tooManyCause(path, items.length, max);
    return;
  }
  yield* eachItem(items, (item, index) => validate(item, `${path}[${index}]`));
}

/** Validates items whose names must differ. */
function* eachNamed(path: string, items: readonly unknown[], max: number, validate: Check): Causes {
  yield* each(path, items, max, validate);
  if (items.length > max) return;
  yield* repeatCauses(
    items.map((item) => textAt(item, "name")),
    path,
  );
}

/** The names that constraints and configurations may refer to: of requests, and of alternatives after a slash. */
function requestNames(requests: readonly unknown[]): ReadonlySet<string> {
  return new Set(
    requests.flatMap((request) => {
      const name = textAt(request, "name");
      return [name, ...listAt(request, "firstAvailable").map((each) => `${name}/${textAt(each, "name")}`)];
    }),
  );
}

function* referenceCauses(path: string, references: readonly unknown[], names: ReadonlySet<string>): Causes {
  const texts = references.map(String);
  const detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
  yield* each(path, texts, maxItems, (_, at) => {
    const name = texts[Number(/\[(\d+)\]$/.exec(at)?.[1])] ?? "";
    const parts = name.split("/");
    const unknown = names.has(name) ? [] : [invalidCause(at, name, detail)];
    if (parts.length > 2) return unknown;
    return [...parts.flatMap((part) => labelCauses(at, part)), ...unknown];
  });
  yield* repeatCauses(texts, path);
}

function labelCauses(path: string, name: string): StatusCause[] {
  return dns1123LabelFaults(name).map((fault) => invalidCause(path, name, fault));
}

function constraintCauses(constraint: unknown, path: string): StatusCause[] {
  const attribute = valueAt(constraint, "matchAttribute");
  if (attribute === undefined) return [requiredCause(`${path}.matchAttribute`)];
  return fullyQualifiedNameCauses(`${path}.matchAttribute`, String(attribute));
}

function* requestCauses(request: unknown, path: string): Causes {
  const exactly = valueAt(request, "exactly");
  const alternatives = listAt(request, "firstAvailable");
  yield* labelCauses(`${path}.name`, textAt(request, "name"));
  const detail = "exactly one of `exactly` or `firstAvailable` is required";
  if (exactly === undefined && alternatives.length === 0) {
    yield requiredCause(path, detail);
    return;
  }
  if (exactly !== undefined && alternatives.length > 0) {
    yield invalidCause(path, null, `${detail}, but multiple fields are set`);
    return;
  }
  if (exactly !== undefined) {
    yield* exactCauses(exactly, `${path}.exactly`);
    return;
  }
  yield* eachNamed(`${path}.firstAvailable`, alternatives, maxAlternatives, alternativeCauses);
}

function* alternativeCauses(alternative: unknown, path: string): Causes {
  yield* labelCauses(`${path}.name`, textAt(alternative, "name"));
  yield* exactCauses(alternative, path);
}

function* exactCauses(request: unknown, path: string): Causes {
  const className = textAt(request, "deviceClassName");
  yield* className === ""
    ? [requiredCause(`${path}.deviceClassName`)]
    : check.dnsSubdomain(`${path}.deviceClassName`, className);
  yield* deviceSelectorCauses(`${path}.selectors`, listAt(request, "selectors"));
  yield* allocationCauses(request, path);
}

function allocationCauses(request: unknown, path: string): StatusCause[] {
  const mode = textAt(request, "allocationMode");
  const count = Number(valueAt(request, "count") ?? 0);
  if (mode === "All") {
    return count === 0 ? [] : [invalidCause(`${path}.count`, count, "must not be specified when allocationMode is 'All'")];
  }
  if (mode !== "ExactCount") return [notSupportedCause(`${path}.allocationMode`, mode, ["All", "ExactCount"])];
  return count > 0 ? [] : [invalidCause(`${path}.count`, count, "must be greater than zero")];
}

const maxSelectors = 32;
const maxExpressionBytes = 10 * 1024;

/** Validates selectors of devices. Of their expressions only empty and malformed ones are rejected: the scheduler allocates no devices. */
export function* deviceSelectorCauses(path: string, selectors: readonly unknown[]): Causes {
  yield* each(path, selectors, maxSelectors, (selector, at) => {
    const field = `${at}.cel`;
    if (valueAt(selector, "cel") === undefined) return [requiredCause(field)];
    const expression = textAt(selector, "cel", "expression");
    if (Buffer.byteLength(expression) > maxExpressionBytes) return [tooLongCause(`${field}.expression`, maxExpressionBytes)];
    const fault = compileExpression(expression, ["device"], "bool");
    const isMalformed = expression === "" || (typeof fault === "string" && fault.includes("Syntax error"));
    return isMalformed && typeof fault === "string" ? [invalidCause(`${field}.expression`, expression, fault)] : [];
  });
}

/** Validates the parameters of drivers in the configuration of a class. */
export function* deviceConfigurationCauses(path: string, configurations: readonly unknown[]): Causes {
  yield* each(path, configurations, maxItems, configurationCauses);
}

const maxParameterBytes = 10 * 1024;

function configurationCauses(configuration: unknown, path: string): StatusCause[] {
  const opaque = valueAt(configuration, "opaque");
  if (opaque === undefined) return [requiredCause(`${path}.opaque`)];
  const at = `${path}.opaque`;
  return [
    ...check.driverName(`${at}.driver`, textAt(opaque, "driver")),
    ...parameterCauses(valueAt(opaque, "parameters"), `${at}.parameters`),
  ];
}

function parameterCauses(parameters: unknown, path: string): StatusCause[] {
  if (parameters === undefined || parameters === null) return [requiredCause(path)];
  if (Buffer.byteLength(JSON.stringify(parameters)) > maxParameterBytes) return [tooLongCause(path, maxParameterBytes)];
  return isJsonObject(parameters) ? [] : [invalidCause(path, "<value omitted>", "must be a valid JSON object")];
}
