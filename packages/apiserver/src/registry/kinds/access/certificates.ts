import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { age, humanDuration } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, keepField, listAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource, UserInfo } from "../../served-resource.ts";
import { conditionCauses, decisions, removedConditionCauses, requestCauses, statusCauses } from "./certificate-validation.ts";

type Read = DeepReadonly<KubernetesObject>;

/** certificates.k8s.io/v1 CertificateSigningRequests. `now` is in milliseconds. */
export function certificateKinds(now: () => number): readonly ServedResource[] {
  return [
    builtinResource({
      group: "certificates.k8s.io",
      version: "v1",
      kind: "CertificateSigningRequest",
      plural: "certificatesigningrequests",
      shortNames: ["csr"],
      scope: "Cluster",
      hasStatus: true,
      columns: [
        ageColumn,
        column("SignerName", "The signer that is requested to sign."),
        column("Requestor", "The user who created the request."),
        column("RequestedDuration", "The requested validity of the certificate."),
        column("Condition", "Pending, Approved or Denied, and whether it failed or was issued."),
      ],
      cells,
      selectableFields: { "spec.signerName": (request) => textAt(request, "spec", "signerName") },
      subresources: [
        {
          name: "approval",
          kind: "CertificateSigningRequest",
          verbs: ["get", "patch", "update"],
          changesStatus: true,
          prepareForUpdate: (request, old) => {
            keepField(request, old, "spec");
            const certificate = valueAt(old, "status", "certificate");
            if (certificate !== undefined) setField(ensureMap(request, "status"), "certificate", certificate);
            stampConditions(request, old, now());
          },
          *validateUpdate(request, old) {
            yield* conditionCauses(request);
            yield* removedConditionCauses(request, old);
          },
        },
      ],
      strategy: {
        hasGeneration: false,
        prepareForCreate: recordRequestor,
        prepareForUpdate: (request, old) => keepField(request, old, "spec"),
        validateCreate: requestCauses,
        status: {
          validate: (request, old) => statusCauses(request, old ?? request),
          prepareForUpdate: (request, old) => {
            keepDecisions(request, old);
            stampConditions(request, old, now());
          },
        },
      },
    }),
  ];
}

function cells(request: Read, now: number): readonly string[] {
  const seconds = valueAt(request, "spec", "expirationSeconds");
  return [
    age(request.metadata.creationTimestamp, now),
    textAt(request, "spec", "signerName"),
    textAt(request, "spec", "username"),
    typeof seconds === "number" ? humanDuration(seconds * 1000) : "<none>",
    stateOf(request),
  ];
}

function stateOf(request: Read): string {
  const has = (type: string): boolean => listAt(request, "status", "conditions").some((each) => textAt(each, "type") === type);
  const decision = has("Denied") ? "Denied" : has("Approved") ? "Approved" : "Pending";
  const failed = has("Failed") ? ",Failed" : "";
  const issued = textAt(request, "status", "certificate") === "" ? "" : ",Issued";
  return `${decision}${failed}${issued}`;
}

/** The requestor is who is authenticated, whatever the request says. */
function recordRequestor(request: KubernetesObject, user?: UserInfo): void {
  const spec = ensureMap(request, "spec");
  setField(spec, "username", user?.username);
  setField(spec, "uid", user?.uid);
  setField(spec, "groups", user === undefined ? undefined : [...user.groups]);
  setField(spec, "extra", user?.extra === undefined ? undefined : structuredClone(user.extra));
  setField(request, "status", {});
}

function stampConditions(request: KubernetesObject, old: Read, now: number): void {
  const time = formatTime(now);
  const keyOf = (condition: unknown): string => JSON.stringify([textAt(condition, "type"), textAt(condition, "status")]);
  const before = firstByKey(listAt(old, "status", "conditions"), keyOf);
  for (const condition of objectsAt(request, "status", "conditions")) {
    condition["lastUpdateTime"] ??= time;
    condition["lastTransitionTime"] ??= textAt(before.get(keyOf(condition)), "lastTransitionTime") || time;
  }
}

/** The first item with each key. */
function firstByKey<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, T> {
  return new Map(items.toReversed().map((item) => [keyOf(item), item]));
}

/** Keeps decisions that a write to `status` repeats as they are. */
function keepDecisions(request: KubernetesObject, old: Read): void {
  const conditions = firstByKey(objectsAt(request, "status", "conditions"), (condition) => textAt(condition, "type"));
  for (const before of listAt(old, "status", "conditions")) {
    const condition = conditions.get(textAt(before, "type"));
    if (condition === undefined || !decisions.includes(textAt(before, "type")) || !isJsonObject(before)) continue;
    for (const name of Object.keys(condition)) delete condition[name];
    Object.assign(condition, structuredClone(before));
  }
}
