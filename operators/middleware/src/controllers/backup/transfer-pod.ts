import { controllerReference, type DeepReadonly, type KubernetesObject } from "@keelson/api-machinery";
import { PersistentVolumeClaim, type PersistentVolumeClaimObject, type PodObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import type { BackupSpec } from "../../api/backup.ts";
import type { BackupStorage, TransferStatus } from "../../api/backup-parts.ts";
import { accessSecretName, agentKeys, labels } from "../../api/names.ts";
import { type TransferRequest, type TransferStorage, type TransferWork, transferVariables } from "../../backup/transfer.ts";
import type { Effect } from "../effect.ts";
import { restrictedContext } from "../restricted-context.ts";

/** Mount path of a volume with backups. */
const volumePath = "/backups";
/** Not the default: a node that runs Pods as processes can mount only other paths. */
const resultPath = "/run/keelson/result";

const agentTlsPath = "/etc/middleware-agent-tls";

/** A Pod that transfers data. */
export interface TransferPod {
  /** The Backup or the Restore. */
  readonly owner: DeepReadonly<KubernetesObject>;
  /** Its name, and its times. Without them it runs until it is deleted. */
  readonly transfer: Pick<DeepReadonly<TransferStatus>, "pod"> & Partial<DeepReadonly<TransferStatus>>;
  readonly settings: DeepReadonly<Pick<BackupSpec, "storage" | "encryption">>;
  readonly work: TransferWork;
  /** The App whose agents it calls; undefined if it calls none. */
  readonly app: string | undefined;
  /** Whether these agents use TLS. Without it, the image may be of a version that knows no flags for TLS. */
  readonly hasTls: boolean;
  readonly image: string;
  /** Command line, without flags. */
  readonly command: readonly string[];
}

/** Value of the label of an owner's Pods. */
export const transferLabel = ({ kind, metadata }: DeepReadonly<KubernetesObject>): string =>
  `${kind.toLowerCase()}.${metadata.uid ?? ""}`;

/** Renders a Pod that transfers data. Secrets are references: the controller never reads them. */
export function transferPod({ owner, transfer, settings, work, app, hasTls, image, command }: TransferPod): PodObject {
  const { storage, encryption } = settings;
  const request: TransferRequest = { ...work, storage: storageOf(storage) };
  const secret = (name: string, secretName: string, key: string) => ({
    name,
    valueFrom: { secretKeyRef: { name: secretName, key } },
  });
  const { request: requestName, token, encryptionKey, accessKeyId, secretAccessKey } = transferVariables;
  const env = [
    { name: requestName, value: JSON.stringify(request) },
    ...(app === undefined ? [] : [secret(token, accessSecretName(app), "agentToken")]),
    ...(encryption === undefined ? [] : [secret(encryptionKey, encryption.keySecret.name, encryption.keySecret.key ?? "key")]),
    ...(storage.s3 === undefined
      ? []
      : [
          secret(accessKeyId, storage.s3.credentials.name, "accessKeyId"),
          secret(secretAccessKey, storage.s3.credentials.name, "secretAccessKey"),
        ]),
  ];
  const identity = app === undefined || !hasTls ? undefined : agentTlsVolume(app);
  const volumes = [...volumesOf(storage), ...(identity === undefined ? [] : [identity])];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: transfer.pod,
      namespace: owner.metadata.namespace ?? "",
      labels: { [labels.transfer]: transferLabel(owner) },
      ownerReferences: [controllerReference(owner)],
    },
    spec: {
      ...lifetimeOf(transfer),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      containers: [
        {
          name: "transfer",
          image,
          command: [...command],
          args: [`--result=${resultPath}`, ...(identity === undefined ? [] : [`--agent-tls-dir=${agentTlsPath}`])],
          securityContext: restrictedContext,
          terminationMessagePath: resultPath,
          terminationMessagePolicy: "FallbackToLogsOnError",
          env,
          ...(volumes.length === 0 ? {} : { volumeMounts: volumes.map(({ mount }) => mount) }),
        },
      ],
      ...(volumes.length === 0 ? {} : { volumes: volumes.map(({ source }) => source) }),
    },
  } as PodObject;
}

function volumesOf({ volume }: DeepReadonly<BackupStorage>) {
  if (volume === undefined) return [];
  const source = { name: "backups", persistentVolumeClaim: { claimName: volume.claimName } };
  return [{ mount: { name: "backups", mountPath: volumePath }, source }];
}

/** The identity at agents. Empty until they use TLS. */
function agentTlsVolume(app: string) {
  const { mode, authorities, certificate, key } = agentKeys;
  const items = Object.entries({ mode, "ca.crt": authorities, "tls.crt": certificate, "tls.key": key });
  const secret = {
    secretName: accessSecretName(app),
    defaultMode: 0o400,
    optional: true,
    items: items.map(([path, each]) => ({ key: each, path })),
  };
  return { mount: { name: "agent-tls", mountPath: agentTlsPath, readOnly: true }, source: { name: "agent-tls", secret } };
}

function lifetimeOf({ startedAt, deadlineAt }: TransferPod["transfer"]) {
  if (startedAt === undefined || deadlineAt === undefined) return { restartPolicy: "Always" };
  const timeoutMs = (parseTime(deadlineAt) ?? 0) - (parseTime(startedAt) ?? 0);
  // The controller deletes the Pod at its deadline; this also ends it while no controller runs.
  return { restartPolicy: "Never", activeDeadlineSeconds: Math.max(Math.ceil(timeoutMs / 1_000), 1) };
}

function storageOf({ s3 }: DeepReadonly<BackupStorage>): TransferStorage {
  if (s3 === undefined) return { kind: "volume", root: volumePath };
  const { endpoint, bucket, region, prefix } = s3;
  return {
    kind: "s3",
    endpoint,
    bucket,
    ...(region === undefined ? {} : { region }),
    ...(prefix === undefined ? {} : { prefix }),
  };
}

/** Creates the claim of a storage with a size, if it does not exist. It has no owner: it outlives Backups and Apps. */
export function claimEffects(
  { volume }: DeepReadonly<BackupStorage>,
  namespace: string | undefined,
  claim: DeepReadonly<PersistentVolumeClaimObject> | undefined,
): Effect[] {
  if (volume?.size === undefined || claim !== undefined) return [];
  const object: PersistentVolumeClaimObject = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: volume.claimName, ...(namespace === undefined ? {} : { namespace }) },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: String(volume.size) } },
      ...(volume.storageClass === undefined ? {} : { storageClassName: volume.storageClass }),
    },
  };
  return [{ kind: "create", type: PersistentVolumeClaim, object }];
}
