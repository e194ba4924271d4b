import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { type CrdCondition, type CrdNames, type CustomResourceDefinition, isConditionTrue, withCondition } from "./crd-spec.ts";

type Crd = DeepReadonly<CustomResourceDefinition>;

/**
 * Decides as kube-apiserver does which names of a CRD are accepted and whether it is established, given the other CRDs. Names are
 * allocated within a group in order of arrival. `now` is RFC 3339. Undefined if the status is up to date.
 */
export function decideStatus(crd: Crd, others: Iterable<Crd>, now: string): CustomResourceDefinition["status"] | undefined {
  const taken = namesTaken(crd, others);
  const { acceptedNames, conflict } = acceptNames(crd, taken);
  let conditions = (crd.status?.conditions ?? []) as readonly CrdCondition[];
  conditions = withCondition(
    conditions,
    conflict === undefined
      ? { type: "NamesAccepted", status: "True", reason: "NoConflicts", message: "no conflicts found" }
      : { type: "NamesAccepted", status: "False", reason: conflict.reason, message: conflict.message },
    now,
  );
  // Established is final: objects may exist.
  if (!isConditionTrue(crd, "Established")) {
    conditions = withCondition(
      conditions,
      conflict === undefined
        ? {
            type: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
          }
        : { type: "Established", status: "False", reason: "NotAccepted", message: "not all names are accepted" },
      now,
    );
  }
  const status = { ...crd.status, acceptedNames, conditions };
  return jsonEquals(status, crd.status) ? undefined : status;
}

interface Taken {
  /** Plurals, singulars and short names, which share one namespace. */
  readonly resources: ReadonlySet<string>;
  readonly kinds: ReadonlySet<string>;
}

function namesTaken(crd: Crd, others: Iterable<Crd>): Taken {
  const resources = new Set<string>();
  const kinds = new Set<string>();
  for (const other of others) {
    if (other.spec.group !== crd.spec.group || other.metadata.name === crd.metadata.name) continue;
    const { plural, singular, shortNames = [], kind, listKind } = other.status?.acceptedNames ?? {};
    for (const name of [plural, singular, ...shortNames]) if (name) resources.add(name);
    for (const name of [kind, listKind]) if (name) kinds.add(name);
  }
  return { resources, kinds };
}

function acceptNames(
  crd: Crd,
  taken: Taken,
): { acceptedNames: Partial<CrdNames>; conflict: { reason: string; message: string } | undefined } {
  const required = crd.spec.names;
  const before = crd.status?.acceptedNames ?? {};
  let conflict: { reason: string; message: string } | undefined;
  // A conflicting name keeps its previous value; the last conflict is reported.
  const accept = (name: string, among: ReadonlySet<string>, previous: string, reason: string): string => {
    if (!among.has(name)) return name;
    conflict = { reason, message: `${JSON.stringify(name)} is already in use` };
    return previous;
  };
  const plural = accept(required.plural, taken.resources, before.plural ?? "", "PluralConflict");
  const singular = accept(required.singular, taken.resources, before.singular ?? "", "SingularConflict");
  const clashes = (required.shortNames ?? []).filter((name) => taken.resources.has(name));
  let shortNames = required.shortNames;
  if (clashes.length > 0) {
    shortNames = before.shortNames;
    conflict = {
      reason: "ShortNamesConflict",
      message: clashes.map((name) => `${JSON.stringify(name)} is already in use`).join(", "),
    };
  }
  const kind = accept(required.kind, taken.kinds, before.kind ?? "", "KindConflict");
  const listKind = accept(required.listKind, taken.kinds, before.listKind ?? "", "ListKindConflict");
  const { categories } = required;
  return {
    acceptedNames: {
      plural,
      ...(singular === "" ? {} : { singular }),
      ...(shortNames === undefined ? {} : { shortNames }),
      kind,
      ...(listKind === "" ? {} : { listKind }),
      ...(categories === undefined ? {} : { categories }),
    },
    conflict,
  };
}
