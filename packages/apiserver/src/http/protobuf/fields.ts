import { fieldTable } from "./field-table.generated.ts";

/** A field of a message. */
export interface Field {
  readonly number: number;
  /** The name in JSON. */
  readonly name: string;
  /** A letter for scalars and well-known types (see the generator), or the name of a message. For a map, the type of its values. */
  readonly type: string;
  /** `inlined`: the fields of the message belong to the enclosing one. */
  readonly shape: "single" | "repeated" | "map" | "inlined";
  /** Whether Go has a pointer: it is encoded if it is set. Other single fields are always encoded. */
  readonly isPointer: boolean;
  /** Whether zero, false and the empty string are values in JSON rather than absence. */
  readonly keepsZero: boolean;
}

let lines: ReadonlyMap<string, string> | undefined;
const parsed = new Map<string, ReadonlyMap<number, Field>>();

/** The fields of a message (`core.v1.Pod`) by number, in ascending order; undefined if it is unknown. Parses the generated table lazily. */
export function fieldsOf(message: string | undefined): ReadonlyMap<number, Field> | undefined {
  if (message === undefined) return undefined;
  const known = parsed.get(message);
  if (known !== undefined) return known;
  lines ??= new Map(fieldTable.split("\n").map((line) => line.split("\t") as [string, string]));
  const line = lines.get(message);
  if (line === undefined) return undefined;
  const fields = new Map(
    line
      .split(" ")
      .filter(Boolean)
      .map(parseField)
      .map((field) => [field.number, field]),
  );
  parsed.set(message, fields);
  return fields;
}

/** The kinds of the group `meta.k8s.io` that every group has. */
const kindsOfMeta: ReadonlySet<string> = new Set(
  "DeleteOptions Status APIGroup APIGroupList APIResourceList APIVersions".split(" "),
);

/** API groups whose messages are named by their first label. Custom kinds can be in any other group. */
const groups: ReadonlySet<string> = new Set(
  `admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io apps authentication.k8s.io authorization.k8s.io autoscaling
   batch certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io networking.k8s.io node.k8s.io
   policy rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io`.split(/\s+/),
);

/** `apps/v1 Deployment` is `apps.v1.Deployment`. Undefined for groups without messages. */
export function messageName(apiVersion: string, kind: string): string | undefined {
  if (kindsOfMeta.has(kind)) return `meta.v1.${kind}`;
  const [group = "", version] = apiVersion.split("/");
  if (version === undefined) return `core.${group}.${kind}`;
  if (group === "meta.k8s.io") return `meta.v1.${kind}`;
  return groups.has(group) ? `${group.split(".", 1)[0]}.${version}.${kind}` : undefined;
}

function parseField(text: string): Field {
  const match = /^(\d+)([<!?]?)([^:]+):([*%]?)(.+)$/.exec(text);
  if (match === null) throw new TypeError(`malformed field ${JSON.stringify(text)} in the generated table`);
  const [, number, flag = "", name = "", prefix, type = ""] = match;
  const shape = flag === "<" ? "inlined" : prefix === "*" ? "repeated" : prefix === "%" ? "map" : "single";
  return { number: Number(number), name, type, shape, isPointer: flag === "?", keepsZero: flag === "!" || flag === "?" };
}
