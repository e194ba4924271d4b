import type { Operator } from "@keelson/operator";
import { type Condition, installNamespace, type Template, type TemplateMap } from "../template/template.ts";

/** An object to install. */
export interface InstallObject {
  /** Default: always. */
  readonly condition?: Condition;
  readonly template: TemplateMap;
}

/** Objects that belong together: a CustomResourceDefinition, the others of one operator, or those that all share. */
export interface InstallPart {
  /** Name of the operator, `shared`, or `crds/` with the name of a CustomResourceDefinition. */
  readonly name: string;
  readonly objects: readonly InstallObject[];
}

/** Label on everything that is installed, with the `keelson` value. */
export const partOfLabel = "app.kubernetes.io/part-of";

/** Label with the name of the operator. */
export const componentLabel = "app.kubernetes.io/component";

/** Name of an operator's objects in the namespace: `keelson-robots`. */
export const objectName = (component: string): string => `keelson-${component}`;

/** Name of an operator's ClusterRole and Role: `keelson:robots`. */
export const roleName = (operator: Pick<Operator, "name">): string => `keelson:${operator.name}`;

/** Labels that select the Pods of a component. They cannot change after the installation. */
export const selectorLabels = (component: string): Record<string, string> => ({
  "app.kubernetes.io/name": "keelson",
  [componentLabel]: component,
});

/** Labels of the objects of a component. */
export const labelsOf = (component: string): Record<string, string> => ({
  ...selectorLabels(component),
  [partOfLabel]: "keelson",
});

/** The metadata of an object in the namespace of the installation. */
export const namespaced = (name: string, component: string, more: TemplateMap = {}): TemplateMap => ({
  name,
  namespace: installNamespace,
  labels: labelsOf(component),
  ...more,
});

/** The metadata of an object of the whole cluster. */
export const clusterWide = (name: string, component: string, more: TemplateMap = {}): TemplateMap => ({
  name,
  labels: labelsOf(component),
  ...more,
});

/** A JSON value of a typed object as a template without open parts. */
export const literal = (json: unknown): Template => JSON.parse(JSON.stringify(json)) as Template;
