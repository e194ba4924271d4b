import type { DeepReadonly } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import type { LoadGenerator } from "../api/load-generator.ts";
import { planVariable } from "../generator/load-plan.ts";
import { loadMs, planLoad } from "../generator/plan-load.ts";
import { hasTemplate, validateTemplates } from "../templating/template.ts";

type Generator = DeepReadonly<LoadGenerator>;

/** Variables of the expressions in a generator. */
const generatorVariables = ["values"] as const;

/** Validates a load generator beyond its schema. Returns one line per error. */
export function validateLoadGenerator(generator: Generator, path: string): readonly string[] {
  const errors = [...validateTemplates(generator, path, generatorVariables), ...modelErrors(generator, path)];
  const urlError = hasTemplate(generator.url) ? undefined : validateUrl(generator.url);
  if (urlError !== undefined) errors.push(`${path}.url: ${urlError}`);
  errors.push(...grpcErrors(generator, path));
  if (errors.length > 0) return errors;
  if (loadMs(generator) <= 0) errors.push(`${path}: the load must last longer than 0s`);
  if (generator.requestTimeout !== undefined && parseDuration(generator.requestTimeout) <= 0) {
    errors.push(`${path}.requestTimeout: must be greater than 0s`);
  }
  const sizeError = validatePlanSize(generator, path);
  return sizeError === undefined ? errors : [...errors, sizeError];
}

/** Maximum size of an environment variable with its name and its end: MAX_ARG_STRLEN of Linux. */
const maxVariableBytes = 131_072;

/** Why the plan of a generator cannot be passed to its Pods in an environment variable. Names the largest field. */
export function validatePlanSize(generator: Generator, path: string): string | undefined {
  const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? "");
  const size = Math.max(...planLoad(generator).map(bytesOf)) + Buffer.byteLength(`${planVariable}=`) + 1;
  if (size <= maxVariableBytes) return undefined;
  const fields = ["body", "grpc", "headers"] as const;
  const field = fields.reduce((longest, each) => (bytesOf(generator[each]) > bytesOf(generator[longest]) ? each : longest));
  return `${path}.${field}: too long: url, headers, body and grpc must have at most 128 KiB together as JSON, but have about ${Math.ceil(size / 1_024)} KiB`;
}

/** Why a text is not a URL that a generator can request. */
export function validateUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") return `${JSON.stringify(text)} is not an http or https URL`;
  return url.username === "" && url.password === "" ? undefined : "must not contain credentials; use a header";
}

/** Fields that describe HTTP requests, which a gRPC call replaces. */
const httpFields = ["method", "body", "protocol", "expectedStatusCodes"] as const;

function grpcErrors(generator: Generator, path: string): readonly string[] {
  if (generator.grpc === undefined) return [];
  const errors = httpFields
    .filter((field) => generator[field] !== undefined)
    .map((field) => `${path}.${field}: not allowed with grpc`);
  const { url } = generator;
  if (!hasTemplate(url) && URL.canParse(url) && !/^\/?$/.test(new URL(url).pathname + new URL(url).search))
    errors.push(`${path}.url: must have no path with grpc`);
  return errors;
}

function modelErrors({ rate, users, duration, stages, thinkTime }: Generator, path: string): readonly string[] {
  const errors: string[] = [];
  const isOpen = rate !== undefined || stages?.some((stage) => stage.rate !== undefined);
  const isClosed = users !== undefined || stages?.some((stage) => stage.users !== undefined);
  if (isOpen && isClosed) errors.push(`${path}: must have only one of rate (open model) and users (closed model)`);
  if (!isOpen && !isClosed)
    errors.push(`${path}: must have rate (open model), users (closed model), or stages with one of them`);
  if (stages === undefined && duration === undefined) errors.push(`${path}.duration: required without stages`);
  if (stages !== undefined && duration !== undefined) errors.push(`${path}.duration: not allowed with stages`);
  if (isOpen && thinkTime !== undefined) errors.push(`${path}.thinkTime: requires users`);
  for (const [index, stage] of (stages ?? []).entries()) {
    if (stage.rate === undefined && stage.users === undefined) errors.push(`${path}.stages[${index}]: must have rate or users`);
  }
  return errors;
}
