import type { KubernetesObject, Scope } from "@keelson/api-machinery";
import type { PrinterColumn } from "@keelson/api-machinery/schema";
import type { ReceivedObject } from "../received.ts";
import type { ServedResource, Strategy, Subresource, Verb } from "../served-resource.ts";
import { builtinKindSchema } from "./builtin-schemas.ts";

/** Verbs of stored kinds. */
const storedVerbs: readonly Verb[] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/** Verbs of the `proxy` subresource. */
export const proxyVerbs: readonly Verb[] = ["create", "delete", "get", "patch", "update"];

/** The definition of a built-in kind; the rest is derived. `T` is the type of its objects. */
export interface BuiltinKind<T extends KubernetesObject = KubernetesObject> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  /** Default: the kind in lower case. */
  readonly singular?: string;
  readonly scope: Scope;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  /** Default: {@link storedVerbs}. */
  readonly verbs?: readonly Verb[];
  readonly hasStatus?: boolean;
  readonly scale?: ServedResource["scale"];
  /** Default: Name and Created At. */
  readonly columns?: readonly PrinterColumn[];
  readonly cells?: (object: ReceivedObject<T>, now: number) => readonly (string | number | boolean)[];
  readonly rowConditions?: (object: ReceivedObject<T>) => readonly unknown[];
  readonly strategy?: Strategy<T>;
  readonly selectableFields?: Readonly<Record<string, (object: ReceivedObject<T>) => string>>;
  readonly subresources?: readonly Subresource[];
  readonly storageApiVersion?: string;
  readonly deprecationWarning?: string;
  readonly conversion?: ServedResource["conversion"];
}

/** Creates the served resource of a built-in kind. Throws a `TypeError` if the schema table lacks the kind. */
export function builtinResource<T extends KubernetesObject = KubernetesObject>(kind: BuiltinKind<T>): ServedResource;
export function builtinResource(kind: BuiltinKind): ServedResource {
  const schema = builtinKindSchema(kind.group, kind.version, kind.kind);
  if (schema === undefined) throw new TypeError(`built-in kind ${kind.group}/${kind.version} ${kind.kind} has no schema`);
  const { columns = [createdAtColumn], ...rest } = kind;
  return {
    singular: kind.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    verbs: storedVerbs,
    storageApiVersion: kind.group === "" ? kind.version : `${kind.group}/${kind.version}`,
    hasStatus: false,
    strategy: {},
    selectableFields: {},
    ...rest,
    columns,
    listKind: `${kind.kind}List`,
    schema,
    origin: "builtin",
  };
}

/** The column of kinds without their own. */
const createdAtColumn: PrinterColumn = {
  name: "Created At",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "When the object was created.",
};

/** A column whose cells `cells` computes. */
export function column(
  name: string,
  description: string,
  options: { readonly wide?: boolean; readonly format?: string; readonly type?: PrinterColumn["type"] } = {},
): PrinterColumn {
  return {
    name,
    type: options.type ?? "string",
    jsonPath: "",
    description,
    ...(options.format === undefined ? {} : { format: options.format }),
    priority: options.wide ? 1 : 0,
  };
}

/** The age column, which most kinds have. */
export const ageColumn: PrinterColumn = column("Age", "How long ago the object was created.");
