import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { invalidCause, notSupportedCause } from "@keelson/api-machinery/validation";
import { badRequest, invalidOptions } from "../errors.ts";
import { jsonType } from "../object/decode-error.ts";
import type { PipelineRequest } from "../outcome.ts";
import { isTrue } from "../request-info.ts";
import { dryRunProblem, queriedDryRun } from "./write-options.ts";

/** Options of a delete: from its body, or from its query if it has none. */
export interface DeleteOptions {
  readonly isDryRun: boolean;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Orphan" | "Background" | "Foreground";
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Whether the request has `orphanDependents: false`, which changes the response's status code. */
  readonly isCascadeRequested: boolean;
  /** As admission sees them (meta/v1 DeleteOptions). */
  readonly sent: JsonObject;
}

/** The fields of DeleteOptions as sent, with their types checked. */
interface SentOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: string;
  readonly orphanDependents?: boolean;
  readonly dryRun?: readonly string[];
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

const policies = ["Foreground", "Background", "Orphan"] as const;

/** Parses DeleteOptions (meta/v1). Throws `BadRequest` or `Invalid`. */
export function deleteOptions(request: PipelineRequest): DeleteOptions {
  // As in kube-apiserver, a body replaces the options of the query.
  const sent = request.body === undefined ? queriedOptions(request) : decodedOptions(request.body);
  const { propagationPolicy: policy, orphanDependents, dryRun = [], preconditions } = sent;
  requireValid(sent);
  // kube-apiserver treats a negative period as one second.
  const grace = sent.gracePeriodSeconds !== undefined && sent.gracePeriodSeconds < 0 ? 1 : sent.gracePeriodSeconds;
  const ofDependents = orphanDependents === undefined ? undefined : orphanDependents ? "Orphan" : "Background";
  const propagationPolicy = policies.find((known) => known === policy) ?? ofDependents;
  const { kind: _kind, apiVersion: _version, ...given } = isJsonObject(request.body) ? request.body : {};
  return {
    sent: {
      kind: "DeleteOptions",
      apiVersion: "meta.k8s.io/v1",
      ...(dryRun.length === 0 ? {} : { dryRun: [...dryRun] }),
      ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
      ...(policy === undefined ? {} : { propagationPolicy: policy }),
      ...given,
    },
    isDryRun: dryRun.length > 0,
    isCascadeRequested: orphanDependents === false,
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
    ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    ...(preconditions?.uid === undefined ? {} : { uid: preconditions.uid }),
    ...(preconditions?.resourceVersion === undefined ? {} : { resourceVersion: preconditions.resourceVersion }),
  };
}

function requireValid({ propagationPolicy: policy, orphanDependents, dryRun = [] }: SentOptions): void {
  const field = "propagationPolicy";
  const isBoth = policy !== undefined && orphanDependents !== undefined;
  const isKnown = policy === undefined || policies.some((known) => known === policy);
  const causes = [
    isBoth ? invalidCause(field, policy, "orphanDependents and deletionPropagation cannot be both set") : undefined,
    isKnown ? undefined : notSupportedCause(field, policy, [...policies, "nil"]),
    dryRunProblem(dryRun),
  ].filter((cause) => cause !== undefined);
  if (causes.length > 0) throw invalidOptions("DeleteOptions", ...causes);
}

function decodedOptions(body: unknown): SentOptions {
  if (body === null) return {};
  if (!isJsonObject(body)) throw badRequest("the body of a delete must be DeleteOptions");
  const { kind } = body;
  if (kind !== undefined && kind !== "DeleteOptions") {
    throw badRequest(`the body of a delete must be DeleteOptions, not ${JSON.stringify(kind)}`);
  }
  const wrong = (value: unknown, field: string, type: string): Error =>
    badRequest(`json: cannot unmarshal ${jsonType(value, type)} into Go struct field ${field} of type ${type}`);
  const read = <T>(from: JsonObject, name: string, is: (value: unknown) => value is T, type: string): { [name: string]: T } => {
    const value = from[name];
    if (value === undefined || value === null) return {};
    // A malformed option is an error: ignoring a precondition would delete the object.
    if (!is(value)) throw wrong(value, `${from === body ? "DeleteOptions." : "Preconditions.preconditions."}${name}`, type);
    return { [name]: value };
  };
  const preconditions = read(body, "preconditions", isJsonObject, "v1.Preconditions")["preconditions"];
  return {
    ...read(body, "gracePeriodSeconds", isInteger, "int64"),
    ...read(body, "propagationPolicy", isText, "v1.DeletionPropagation"),
    ...read(body, "orphanDependents", isBoolean, "bool"),
    ...read(body, "dryRun", isTexts, "[]string"),
    ...(preconditions === undefined
      ? {}
      : {
          preconditions: {
            ...read(preconditions, "uid", isText, "types.UID"),
            ...read(preconditions, "resourceVersion", isText, "string"),
          },
        }),
  };
}

const isInteger = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText);

function queriedOptions(request: PipelineRequest): SentOptions {
  const { gracePeriodSeconds: grace, propagationPolicy, orphanDependents, uid, resourceVersion } = request.query ?? {};
  if (grace !== undefined && !/^[-+]?\d{1,15}$/.test(grace)) {
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(grace)}: invalid syntax`);
  }
  return {
    ...(grace === undefined ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    ...(orphanDependents === undefined ? {} : { orphanDependents: isTrue(orphanDependents) }),
    dryRun: queriedDryRun(request),
    preconditions: { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) },
  };
}
