/**
 * A structural schema: the subset of JSON Schema that Kubernetes allows in a CustomResourceDefinition (apiextensions/v1
 * JSONSchemaProps). Keelson describes every kind this way, built-in kinds included. Validation, pruning, defaulting, patches,
 * server-side apply and OpenAPI all use it.
 *
 * Schemas of built-in kinds are recursive (JSONSchemaProps) and share parts, so properties may be getters that resolve lazily
 * and return the same object each time. Walk a schema only along a value, never on its own.
 */
export interface Schema {
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly description?: string;
  readonly format?: string;
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly title?: string;
  readonly example?: unknown;
  readonly externalDocs?: { readonly description?: string; readonly url?: string };

  readonly properties?: { readonly [name: string]: Schema };
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;

  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;

  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;

  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly multipleOf?: number;

  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;

  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-embedded-resource"?: boolean;
  readonly "x-kubernetes-int-or-string"?: boolean;
  readonly "x-kubernetes-list-type"?: "atomic" | "set" | "map";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-map-type"?: "atomic" | "granular";
  readonly "x-kubernetes-validations"?: readonly ValidationRule[];
  /** Built-in kinds only: the value of an omitted field in the Go type if it differs from what `required` suggests; null: none. */
  readonly "x-go-zero-value"?: { readonly [name: string]: unknown } | readonly never[] | string | number | boolean | null;
  /** Built-in kinds only: omitted keys of the items of a list are the empty values of their types. */
  readonly "x-go-zero-keys"?: boolean;
  /** Strategic merge patch, built-in kinds only. */
  readonly "x-kubernetes-patch-merge-key"?: string;
  /** Strategic merge patch, built-in kinds only: `merge`, `replace`, `retainKeys` or `merge,retainKeys`. */
  readonly "x-kubernetes-patch-strategy"?: string;
}

/** A CEL rule (apiextensions/v1 ValidationRule). */
export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
  readonly fieldPath?: string;
  readonly optionalOldSelf?: boolean;
}
