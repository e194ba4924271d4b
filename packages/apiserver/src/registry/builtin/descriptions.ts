/** Descriptions for `kubectl explain` of common kinds. The schema table has no prose. */
const descriptions: Readonly<Record<string, string>> = {
  "apiextensions.v1.CustomResourceDefinition": "Adds a kind to the API: its names, scope, and versions with their schemas.",
  "apiextensions.v1.CustomResourceDefinitionSpec": "Names, scope and versions of the kind to add.",
  "apiextensions.v1.CustomResourceDefinitionStatus": "Which names were accepted and which versions were ever stored.",
  "apps.v1.DaemonSet": "Runs one copy of a Pod on each matching node.",
  "apps.v1.Deployment": "Keeps a number of identical Pods running and rolls out changes of their template.",
  "apps.v1.DeploymentSpec": "The desired Pods, their number, and the rollout strategy.",
  "apps.v1.ReplicaSet": "Keeps a number of identical Pods running.",
  "apps.v1.StatefulSet": "Runs Pods with stable names and storage, which start and stop in order.",
  "apps.v1.StatefulSetSpec": "The desired Pods, their number, their storage, and the order of rollouts.",
  "authorization.v1.SelfSubjectAccessReview": "Checks whether the current user may perform an action.",
  "authorization.v1.SubjectAccessReview": "Checks whether a user may perform an action.",
  "batch.v1.CronJob": "Creates Jobs on a schedule.",
  "batch.v1.Job": "Runs Pods until a number of them succeed.",
  "batch.v1.JobSpec": "The Pods to run, how many must succeed, how many run in parallel, and how often they may fail.",
  "coordination.v1.Lease": "A time-limited claim for leader election and heartbeats.",
  "coordination.v1.LeaseSpec": "The holder, the time of its last renewal, and the duration of the lease.",
  "core.v1.ConfigMap": "Non-confidential configuration as text and bytes by key.",
  "core.v1.Container": "A program in a Pod: its image, command, environment and limits.",
  "core.v1.Event": "Reports something that happened to an object. Events expire.",
  "core.v1.Namespace": "A scope for names. Deleting it deletes everything in it.",
  "core.v1.NamespaceSpec": "Finalizers that must complete before the Namespace is removed.",
  "core.v1.NamespaceStatus": "Whether the Namespace is Active or Terminating.",
  "core.v1.Node": "A machine that runs Pods.",
  "core.v1.PersistentVolumeClaim": "A request for persistent storage.",
  "core.v1.Pod": "Containers that run together on one node.",
  "core.v1.PodSpec": "The desired containers, volumes and placement.",
  "core.v1.PodStatus": "The state of the Pod as last reported by its node.",
  "core.v1.Secret": "Passwords, keys and other small confidential data, as bytes by key in base64.",
  "core.v1.Service": "A stable name and address for a set of Pods.",
  "core.v1.ServiceSpec": "The type of address, the ports, and the selector of the Pods.",
  "core.v1.ServiceAccount": "An identity for programs. Pods run as one and receive its tokens.",
  "events.v1.Event": "Reports something that happened to an object. Events expire.",
  "meta.v1.LabelSelector": "Selects objects by their labels. An empty selector selects all.",
  "meta.v1.ObjectMeta": "Standard object's metadata: name, namespace, labels, annotations and owners.",
  "rbac.v1.ClusterRole": "A set of permissions for all namespaces and for cluster-scoped resources.",
  "rbac.v1.ClusterRoleBinding": "Grants a ClusterRole to users, groups and service accounts everywhere.",
  "rbac.v1.Role": "A set of permissions within one namespace.",
  "rbac.v1.RoleBinding": "Grants a Role or ClusterRole to users, groups and service accounts within one namespace.",
};

/** The description of a built-in type by its short name. */
export function descriptionOf(name: string): string | undefined {
  return Object.hasOwn(descriptions, name) ? descriptions[name] : undefined;
}

const fieldDescriptions = {
  apiVersion: "APIVersion defines the group and version of the schema of this object, such as v1 or apps/v1.",
  kind: "The kind of this object in CamelCase. It is immutable.",
  metadata: "Standard object's metadata: name, namespace, labels, annotations and owners.",
};

/** Fields of `metadata` whose meaning does not follow from their names. */
const metadataDescriptions: Readonly<Record<string, string>> = {
  creationTimestamp: "CreationTimestamp is a timestamp that the server sets when it creates the object.",
  deletionGracePeriodSeconds: "The time between the deletion request and the removal of the object.",
  deletionTimestamp: "When the object will be removed. Set by the server when a graceful deletion is requested.",
  finalizers: "Controllers that must act before the object is removed. Each removes its own entry.",
  generateName: "A prefix. The server appends a random suffix to it if `name` is empty.",
  generation: "Counts the changes of the desired state.",
  managedFields: "Which manager set which fields.",
  ownerReferences: "Objects that this one depends on. The garbage collector deletes it after them.",
  resourceVersion: "Changes with each write. Clients pass it back unchanged to detect conflicts and to resume watches.",
  uid: "Unique in time and space, also among objects with the same name.",
};

/** The description of a field of `metadata`, if it has one. */
export function metadataFieldDescription(field: string): string | undefined {
  return Object.hasOwn(metadataDescriptions, field) ? metadataDescriptions[field] : undefined;
}

/** The description of a field that every object has. */
export function commonFieldDescription(field: keyof typeof fieldDescriptions): string {
  return fieldDescriptions[field];
}
