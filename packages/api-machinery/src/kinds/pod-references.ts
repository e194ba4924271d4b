import { isJsonObject } from "../objects/json.ts";

/** The objects that a Pod refers to in its own namespace, by kind. */
export interface PodReferences {
  readonly configMaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
  readonly claims: ReadonlySet<string>;
  /** `default` if the Pod names none. */
  readonly serviceAccount: string;
}

type Parts = Readonly<Record<string, unknown>>;

const part = (value: unknown, key: string): Parts | undefined => {
  const found = isJsonObject(value) ? value[key] : undefined;
  return isJsonObject(found) ? found : undefined;
};
const parts = (value: Parts | undefined, key: string): readonly unknown[] => {
  const found = value?.[key];
  return Array.isArray(found) ? found : [];
};

/**
 * Collects the objects that a Pod refers to: in volumes, in variables of its containers, as image pull secrets, and as its
 * service account. Accepts any object and skips whatever is not shaped like a Pod.
 */
export function podReferences(pod: {
  readonly metadata?: { readonly name?: string | undefined };
  readonly spec?: unknown;
}): PodReferences {
  const spec = isJsonObject(pod.spec) ? pod.spec : {};
  const [configMaps, secrets, claims] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const add = (to: Set<string>, of: Parts | undefined, key = "name"): void => {
    const name = of?.[key];
    if (typeof name === "string" && name !== "") to.add(name);
  };
  const addVolume = (volume: unknown): void => {
    add(configMaps, part(volume, "configMap"));
    add(secrets, part(volume, "secret"), "secretName");
    add(secrets, part(volume, "secret"));
    add(secrets, part(part(volume, "csi"), "nodePublishSecretRef"));
    add(claims, part(volume, "persistentVolumeClaim"), "claimName");
    for (const source of parts(part(volume, "projected"), "sources")) addVolume(source);
  };
  for (const volume of parts(spec, "volumes")) {
    addVolume(volume);
    const name = isJsonObject(volume) ? volume["name"] : undefined;
    if (part(volume, "ephemeral") !== undefined && typeof name === "string") claims.add(`${pod.metadata?.name}-${name}`);
  }
  for (const list of ["containers", "initContainers", "ephemeralContainers"]) {
    for (const container of parts(spec, list)) {
      if (!isJsonObject(container)) continue;
      for (const source of parts(container, "envFrom")) {
        add(configMaps, part(source, "configMapRef"));
        add(secrets, part(source, "secretRef"));
      }
      for (const variable of parts(container, "env")) {
        const from = part(variable, "valueFrom");
        add(configMaps, part(from, "configMapKeyRef"));
        add(secrets, part(from, "secretKeyRef"));
      }
    }
  }
  for (const secret of parts(spec, "imagePullSecrets")) if (isJsonObject(secret)) add(secrets, secret);
  const account = spec["serviceAccountName"];
  return { configMaps, secrets, claims, serviceAccount: typeof account === "string" && account !== "" ? account : "default" };
}
