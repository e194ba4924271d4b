import { type Schema, typedSchema } from "@keelson/api-machinery/schema";

/** Selects objects to read (TestPlane's ResourceSelector). */
export interface ResourceSelector {
  apiVersion: string;
  kind: string;
  /** Default: the namespace of the test. */
  namespace?: string;
  name?: string;
  labelSelector?: Record<string, string>;
  annotationSelector?: Record<string, string>;
}

/** What a step does with its manifest. */
export type ResourceAction = "Apply" | "Delete";

/** An object that a test creates, deletes or reads (TestPlane's ResourceRef): either `manifest` or `selector`. */
export interface ResourceRef {
  manifest?: Record<string, unknown>;
  selector?: ResourceSelector;
  action?: ResourceAction;
  adopt?: boolean;
}

const strings: Schema = { type: "object", additionalProperties: { type: "string" } };

/** Schema of a selector of resources to read. */
const resourceSelectorSchema: Schema = {
  type: "object",
  description: "Selects objects to read without changing them, by exactly one of name, labelSelector and annotationSelector.",
  required: ["apiVersion", "kind"],
  properties: {
    apiVersion: { type: "string", minLength: 1, description: "API version of the objects, such as apps/v1." },
    kind: { type: "string", minLength: 1, description: "Kind of the objects, such as Deployment." },
    namespace: { type: "string", description: "Namespace of the objects. Default: the namespace of the test." },
    name: { type: "string", description: "Name of the object." },
    labelSelector: { ...strings, description: "Labels that the objects must have." },
    annotationSelector: { ...strings, description: "Annotations that the objects must have." },
  },
  oneOf: [{ required: ["name"] }, { required: ["labelSelector"] }, { required: ["annotationSelector"] }],
};

const manifestSchema = (description: string): Schema => ({
  type: "object",
  "x-kubernetes-preserve-unknown-fields": true,
  description,
});

const adopt: Schema = {
  type: "boolean",
  description:
    "Allows the test to change an object that it did not create. The object is not deleted with the test, and the test's changes to it are reverted.",
};

/** Schema of a {@link ResourceRef}. */
export const resourceRef = typedSchema<ResourceRef>({
  type: "object",
  description: "The object to apply, delete or read.",
  properties: {
    manifest: manifestSchema("The object, as you would pass it to kubectl apply --server-side."),
    selector: resourceSelectorSchema,
    action: {
      type: "string",
      enum: ["Apply", "Delete"],
      default: "Apply",
      description: "What the step does with the manifest.",
    },
    adopt,
  },
  oneOf: [{ required: ["manifest"] }, { required: ["selector"] }],
});

/** A resource of a workload: one manifest, a List, or an array under `manifest.items`. */
export const manifestRef = typedSchema<ResourceRef>({
  type: "object",
  description: "Objects to apply or delete.",
  required: ["manifest"],
  properties: {
    manifest: manifestSchema("The object, or a List of objects."),
    action: {
      type: "string",
      enum: ["Apply", "Delete"],
      default: "Apply",
      description: "What the test does with the objects.",
    },
    adopt,
  },
});
