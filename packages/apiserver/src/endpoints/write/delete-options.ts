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
  const typeMeta = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';
  if (!isJsonObject(body))
    throw unreadableType(`json: cannot unmarshal ${jsonType(body, "")} into Go value of type ${typeMeta}`);
  requireOptionsType(body);
  const wrong = (value: unknown, field: string, type: string): Error =>
    badRequest(`json: cannot unmarshal ${jsonType(value, type)} into Go struct field ${field} of type ${type}`);
  const read = <T>(from: JsonObject, name: string, is: (value: unknown) => value is T, type: string): { [name: string]: T } => {
    const value = from[name];
    if (value === undefined || value === null) return {};
    const field = `${from === body ? "DeleteOptions." : "Preconditions.preconditions."}${name}`;
    // Go names the first element that it cannot read.
    if (Array.isArray(value) && type === "[]string") {
      const fault = value.find((item) => item !== null && typeof item !== "string");
      if (fault !== undefined) throw wrong(fault, field, "string");
    }
    // A malformed option is an error: ignoring a precondition would delete the object.
    if (!is(value)) throw wrong(value, field, type);
    return { [name]: value };
  };
  const preconditions = read(body, "preconditions", isJsonObject, "v1.Preconditions")["preconditions"];
  read(body, "ignoreStoreReadErrorWithClusterBreakingPotential", isBoolean, "bool");
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

const unreadableType = (fault: string): Error => badRequest(`couldn't get version/kind; json parse error: ${fault}`);

/** Options name their type, or leave it to the endpoint. Every API group has the `DeleteOptions` kind. */
function requireOptionsType({ apiVersion = "", kind = "" }: JsonObject): void {
  for (const [name, value] of Object.entries({ apiVersion: apiVersion ?? "", kind: kind ?? "" })) {
    if (typeof value === "string") continue;
    throw unreadableType(`json: cannot unmarshal ${jsonType(value, "string")} into Go struct field .${name} of type string`);
  }
  if (typeof apiVersion === "string" && apiVersion.split("/").length > 2) {
    throw badRequest(`unexpected GroupVersion string: ${apiVersion}`);
  }
  if (kind === null || kind === "" || kind === "DeleteOptions") return;
  const version = apiVersion === "" || apiVersion === null ? "meta.k8s.io/v1" : String(apiVersion);
  throw badRequest(`no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(version)} in scheme ${scheme}`);
}

/** Where kube-apiserver's decoder is defined, which its messages name. */
const scheme = '"pkg/runtime/scheme.go:111"';

const isInteger = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText);

function queriedOptions(request: PipelineRequest): SentOptions {
  const { gracePeriodSeconds: grace, propagationPolicy, orphanDependents, uid, resourceVersion } = request.query ?? {};
  if (grace !== undefined && !/^[-+]?\d{1,15}$/.test(grace)) {
    const fault = /^[-+]?\d+$/.test(grace) ? "value out of range" : "invalid syntax";
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(grace)}: ${fault}`);
  }
  return {
    ...(grace === undefined ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    ...(orphanDependents === undefined ? {} : { orphanDependents: isTrue(orphanDependents) }),
    dryRun: queriedDryRun(request),
    preconditions: { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) },
  };
}
