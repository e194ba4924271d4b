import { isJsonObject } from "@keelson/api-machinery";
import { compileExpression } from "@keelson/api-machinery/cel";
import {
  dns1123LabelFaults,
  duplicateCause,
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

const maxItems = 32;
const maxAlternatives = 8;

/** Validates the devices of a claim or of a claim template (DeviceClaim). */
export function claimedDeviceCauses(path: string, devices: unknown): StatusCause[] {
  const requests = listAt(devices, "requests");
  const names = requestNames(requests);
  return [
    ...eachNamed(`${path}.requests`, requests, maxItems, requestCauses),
    ...each(`${path}.constraints`, listAt(devices, "constraints"), maxItems, (constraint, at) => [
      ...referenceCauses(`${at}.requests`, listAt(constraint, "requests"), names),
      ...constraintCauses(constraint, at),
    ]),
    ...each(`${path}.config`, listAt(devices, "config"), maxItems, (configuration, at) => [
      ...referenceCauses(`${at}.requests`, listAt(configuration, "requests"), names),
      ...configurationCauses(configuration, at),
    ]),
  ];
}

type Check = (item: unknown, path: string) => StatusCause[];

function each(path: string, items: readonly unknown[], max: number, validate: Check): StatusCause[] {
  if (items.length > max) return [tooManyCause(path, items.length, max)];
  return items.flatMap((item, index) => validate(item, `${path}[${index}]`));
}

/** Validates items whose names must differ. */
function eachNamed(path: string, items: readonly unknown[], max: number, validate: Check): StatusCause[] {
  const causes = each(path, items, max, validate);
  if (items.length > max) return causes;
  const names = items.map((item) => textAt(item, "name"));
  const repeated = names.flatMap((name, index) =>
    names.indexOf(name) < index ? [duplicateCause(`${path}[${index}]`, name)] : [],
  );
  return [...causes, ...repeated];
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

function referenceCauses(path: string, references: readonly unknown[], names: ReadonlySet<string>): StatusCause[] {
  const texts = references.map(String);
  const detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
  const causes = each(path, texts, maxItems, (_, at) => {
    const name = texts[Number(/\[(\d+)\]$/.exec(at)?.[1])] ?? "";
    const parts = name.split("/");
    const unknown = names.has(name) ? [] : [invalidCause(at, name, detail)];
    if (parts.length > 2) return unknown;
    return [...parts.flatMap((part) => labelCauses(at, part)), ...unknown];
  });
  return [
    ...causes,
    ...texts.flatMap((name, index) => (texts.indexOf(name) < index ? [duplicateCause(`${path}[${index}]`, name)] : [])),
  ];
}

function labelCauses(path: string, name: string): StatusCause[] {
  return dns1123LabelFaults(name).map((fault) => invalidCause(path, name, fault));
}

function constraintCauses(constraint: unknown, path: string): StatusCause[] {
  const attribute = valueAt(constraint, "matchAttribute");
  if (attribute === undefined) return [requiredCause(`${path}.matchAttribute`)];
  return fullyQualifiedNameCauses(`${path}.matchAttribute`, String(attribute));
}

function requestCauses(request: unknown, path: string): StatusCause[] {
  const exactly = valueAt(request, "exactly");
  const alternatives = listAt(request, "firstAvailable");
  const causes = labelCauses(`${path}.name`, textAt(request, "name"));
  const detail = "exactly one of `exactly` or `firstAvailable` is required";
  if (exactly === undefined && alternatives.length === 0) return [...causes, requiredCause(path, detail)];
  if (exactly !== undefined && alternatives.length > 0) {
    return [...causes, invalidCause(path, null, `${detail}, but multiple fields are set`)];
  }
  if (exactly !== undefined) return [...causes, ...exactCauses(exactly, `${path}.exactly`)];
  return [...causes, ...eachNamed(`${path}.firstAvailable`, alternatives, maxAlternatives, alternativeCauses)];
}

function alternativeCauses(alternative: unknown, path: string): StatusCause[] {
  return [...labelCauses(`${path}.name`, textAt(alternative, "name")), ...exactCauses(alternative, path)];
}

function exactCauses(request: unknown, path: string): StatusCause[] {
  const className = textAt(request, "deviceClassName");
  return [
    ...(className === ""
      ? [requiredCause(`${path}.deviceClassName`)]
      : check.dnsSubdomain(`${path}.deviceClassName`, className)),
    ...deviceSelectorCauses(`${path}.selectors`, listAt(request, "selectors")),
    ...allocationCauses(request, path),
  ];
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
export function deviceSelectorCauses(path: string, selectors: readonly unknown[]): StatusCause[] {
  return each(path, selectors, maxSelectors, (selector, at) => {
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
export function deviceConfigurationCauses(path: string, configurations: readonly unknown[]): StatusCause[] {
  return each(path, configurations, maxItems, configurationCauses);
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
