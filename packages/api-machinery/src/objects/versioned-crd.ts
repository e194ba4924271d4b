import type { ResourceDefinition } from "./resource.ts";

/**
 * The CustomResourceDefinition of a kind with several versions, each with its own schema. Objects are stored in the version of `storage`.
 * The conversion between versions is set by the program that serves it (`defineConversion` of `@keelson/controller/webhooks`).
 *
 * **Errors**: a `TypeError` if the definitions are not of the same kind, plural and scope, or repeat a version.
 */
export function versionedCrd(storage: ResourceDefinition, ...others: readonly ResourceDefinition[]): ResourceDefinition["crd"] {
  const { crd } = storage;
  const versions = [storage, ...others].flatMap((definition) => {
    const { group, kind, plural, scope } = definition;
    if (group !== storage.group || kind !== storage.kind || plural !== storage.plural || scope !== storage.scope) {
      throw new TypeError(
        `${kind} (${plural}.${group}, ${scope}) is not a version of ${storage.kind} (${plural}.${storage.group})`,
      );
    }
    return (definition.crd.spec?.versions ?? []).map((version) => ({
      ...version,
      storage: definition === storage && version.name === storage.version,
    }));
  });
  const names = versions.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated !== undefined) throw new TypeError(`${storage.kind}: version ${repeated} is defined twice`);
  return { ...crd, spec: { ...crd.spec, versions } };
}
