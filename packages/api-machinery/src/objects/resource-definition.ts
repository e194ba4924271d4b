import type { TSchema } from "typebox";
import { apiVersionOf, type DefinedResource, type ResourceDefinition, type ResourceOptions, type Scope } from "./resource.ts";
import { schemaFromTypeBox } from "../schema/from-typebox.ts";
import { completeObjectSchema } from "../schema/object-meta.ts";
import type { Schema } from "../schema/schema.ts";
import { validateStructural } from "../schema/structural.ts";

/**
 * Declares a custom kind: its static type, its identity for clients, its structural schema and its CustomResourceDefinition.
 *
 * In the CRD, `spec` is required if any of its fields is; otherwise it defaults to `{}`, so that it is always set, as its type says.
 * The CRD leaves the schema of `metadata` to the server; `schema` includes it.
 *
 * **Errors**: a `TypeError` that names the path if a schema is not structural (see `schemaFromTypeBox`). Patterns and CEL rules are
 * compiled by the server, which rejects the CRD if one is invalid.
 *
 * **Example**
 *
 * ```ts
 * const Lamp = defineResource({
 *   group: "example.com", version: "v1", kind: "Lamp", plural: "lamps", description: "A lamp.",
 *   spec: Type.Object({ isOn: Type.Boolean(), colour: Type.Optional(Type.Enum(["red", "blue"])) }),
 * });
 * type Lamp = ObjectType<typeof Lamp>;
 * ```
 */
export function defineResource<Spec extends TSchema, Stat extends TSchema = TSchema>(
  options: ResourceOptions<Spec, Stat>,
): DefinedResource<Spec, Stat> {
  const { group, version, kind, plural, scope = "Namespaced", singular = kind.toLowerCase() } = options;
  const schema = objectSchema(options);
  // Programs that only declare kinds must not load the engines for patterns and CEL. The server compiles both.
  const [fault] = validateStructural(schema, "", { compileExpressions: false });
  if (fault) throw new TypeError(`${kind}.${group}: schema ${fault.field}: ${fault.message}`);
  return {
    group,
    version,
    apiVersion: apiVersionOf(options),
    kind,
    plural,
    singular,
    scope,
    schema: completeObjectSchema(schema),
    crd: customResourceDefinition(options, singular, scope, schema),
  };
}

function objectSchema(options: ResourceOptions<TSchema, TSchema>): Schema {
  let spec = schemaFromTypeBox(options.spec, `${options.kind}.spec`);
  const isRequired = (spec.required?.length ?? 0) > 0;
  const fitsEmpty = spec.minProperties === undefined && !spec.anyOf && !spec.oneOf && !spec.allOf && !spec.not;
  if (!isRequired && spec.type === "object" && fitsEmpty && spec.default === undefined) spec = { ...spec, default: {} };
  return {
    type: "object",
    description: options.description,
    ...(isRequired ? { required: ["spec"] } : {}),
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      spec,
      ...(options.status ? { status: schemaFromTypeBox(options.status, `${options.kind}.status`) } : {}),
    },
    ...(options.validations?.length ? { "x-kubernetes-validations": options.validations } : {}),
  };
}

function customResourceDefinition(
  options: ResourceOptions<TSchema, TSchema>,
  singular: string,
  scope: Scope,
  openAPIV3Schema: Schema,
): ResourceDefinition["crd"] {
  const { group, kind, plural, shortNames, categories, columns, scale } = options;
  const subresources = { ...(options.status ? { status: {} } : {}), ...(scale ? { scale } : {}) };
  const version = (name: string, storage: boolean) => ({
    name,
    served: true,
    storage,
    schema: { openAPIV3Schema },
    ...(Object.keys(subresources).length > 0 ? { subresources } : {}),
    ...(columns?.length ? { additionalPrinterColumns: [...columns] } : {}),
  });
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular,
        ...(shortNames?.length ? { shortNames: [...shortNames] } : {}),
        ...(categories?.length ? { categories: [...categories] } : {}),
      },
      versions: [version(options.version, true), ...(options.servedVersions ?? []).map((name) => version(name, false))],
    },
  };
}
