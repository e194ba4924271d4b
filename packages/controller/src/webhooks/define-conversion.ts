import { apiVersionOf, type DeepReadonly, draft, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";

/** An object of another version, without what conversion keeps: `apiVersion` and `kind` are set, and metadata is that of the original. */
export type Converted<T extends KubernetesObject> = Omit<T, "apiVersion" | "kind" | "metadata"> & {
  /** Labels and annotations may change, for example to keep fields that a version does not have. Default: as they are. */
  readonly metadata?: Pick<T["metadata"], "labels" | "annotations">;
};

/** Converts between one version and the hub. The functions must not change their argument, and should lose nothing in a round trip. */
export interface Spoke<Hub extends KubernetesObject> {
  readonly type: ResourceType;
  readonly toHub: (object: DeepReadonly<KubernetesObject>) => Converted<Hub>;
  readonly fromHub: (object: DeepReadonly<Hub>) => Converted<KubernetesObject>;
}

/** Options of {@link defineConversion}. */
export interface ConversionOptions<Hub extends KubernetesObject> {
  /** The version that all others are converted to and from; usually the stored one. */
  readonly hub: ResourceType<Hub>;
  readonly spokes: readonly Spoke<Hub>[];
}

/** The conversion between the versions of a custom kind. */
export interface ConversionDefinition {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  /** Converts an object to another version. Throws a `ConversionError` for a version that is not defined. */
  convert(object: DeepReadonly<KubernetesObject>, apiVersion: string): KubernetesObject;
}

/** An object cannot be converted. */
export class ConversionError extends Error {
  override readonly name = "ConversionError";
  readonly code = "UnknownVersion";
}

/**
 * Declares how objects of one version are converted to and from the hub.
 *
 * **Example**
 *
 * ```ts
 * defineSpoke(ServerV1, ServerV2, {
 *   toHub: ({ spec }) => ({ spec: splitAddress(spec.hostPort) }),
 *   fromHub: ({ spec }) => ({ spec: { hostPort: `${spec.host}:${spec.port}` } }),
 * });
 * ```
 */
export function defineSpoke<T extends KubernetesObject, Hub extends KubernetesObject>(
  type: ResourceType<T>,
  _hub: ResourceType<Hub>,
  functions: {
    readonly toHub: (object: DeepReadonly<T>) => Converted<Hub>;
    readonly fromHub: (object: DeepReadonly<Hub>) => Converted<T>;
  },
): Spoke<Hub> {
  const { toHub, fromHub } = functions;
  return {
    type,
    // The API server sends objects that match the schema of their version.
    toHub: (object) => toHub(object as DeepReadonly<T>),
    fromHub: (object) => fromHub(object),
  };
}

/**
 * Declares the conversion between the versions of a custom kind, by hub and spokes as in controller-runtime. `createWebhooks` serves it. The
 * CustomResourceDefinition has all versions with their schemas: see `versionedCrd`.
 *
 * **Errors**: a `TypeError` if a spoke is of another kind, or two have the same version.
 */
export function defineConversion<Hub extends KubernetesObject>(options: ConversionOptions<Hub>): ConversionDefinition {
  const { hub, spokes } = options;
  const { group, kind, plural } = hub;
  const byVersion = new Map<string, Spoke<Hub>>();
  for (const spoke of spokes) {
    const { type } = spoke;
    if (type.group !== group || type.kind !== kind)
      throw new TypeError(`${type.kind}.${type.group} is not a version of ${kind}.${group}`);
    const version = apiVersionOf(type);
    if (version === apiVersionOf(hub) || byVersion.has(version))
      throw new TypeError(`${kind}: version ${type.version} is defined twice`);
    byVersion.set(version, spoke);
  }
  const spokeOf = (apiVersion: string): Spoke<Hub> => {
    const found = byVersion.get(apiVersion);
    if (found === undefined) throw new ConversionError(`${kind}: version ${apiVersion} is not defined`);
    return found;
  };
  const hubVersion = apiVersionOf(hub);
  return {
    group,
    kind,
    plural,
    convert(object, apiVersion) {
      if (object.apiVersion === apiVersion) return draft(object);
      const atHub =
        object.apiVersion === hubVersion
          ? (object as DeepReadonly<Hub>)
          : (complete(spokeOf(object.apiVersion).toHub(object), object, hubVersion) as unknown as DeepReadonly<Hub>);
      if (apiVersion === hubVersion) return draft(atHub);
      return complete(spokeOf(apiVersion).fromHub(atHub), atHub, apiVersion);
    },
  };
}

function complete(
  converted: { readonly metadata?: Pick<KubernetesObject["metadata"], "labels" | "annotations"> },
  original: DeepReadonly<KubernetesObject>,
  apiVersion: string,
): KubernetesObject {
  const { metadata, ...rest } = converted;
  return {
    apiVersion,
    kind: original.kind,
    metadata: { ...draft(original.metadata), ...metadata },
    ...rest,
  };
}
