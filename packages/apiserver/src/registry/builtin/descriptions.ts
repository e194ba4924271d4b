/** What `kubectl explain` says of the kinds that are met most. The schema facts come without prose; these sentences are ours. */
const descriptions: Readonly<Record<string, string>> = {
  "apiextensions.v1.CustomResourceDefinition": "Adds a kind to the API: its names, scope, and versions with their schemas.",
  "apiextensions.v1.CustomResourceDefinitionSpec": "Names, scope and versions of the kind to add.",
  "apiextensions.v1.CustomResourceDefinitionStatus": "Which names were accepted and which versions were ever stored.",
  "apps.v1.DaemonSet": "Runs one copy of a Pod on every matching node.",
  "apps.v1.Deployment": "Keeps a number of identical Pods running and replaces them step by step when their template changes.",
  "apps.v1.DeploymentSpec": "The Pods that are wanted, how many, and how they are replaced.",
  "apps.v1.ReplicaSet": "Keeps a number of identical Pods running.",
  "apps.v1.StatefulSet": "Runs Pods with stable names and storage, started and stopped in order.",
  "apps.v1.StatefulSetSpec": "The Pods that are wanted, how many, their storage, and in which order they come and go.",
  "authorization.v1.SelfSubjectAccessReview": "Asks whether the sender of the request may do something.",
  "authorization.v1.SubjectAccessReview": "Asks whether somebody may do something.",
  "batch.v1.CronJob": "Starts Jobs at the times of a schedule.",
  "batch.v1.Job": "Runs Pods until a number of them have succeeded.",
  "batch.v1.JobSpec": "The Pods to run, how many have to succeed, how many run at once, and how often they may fail.",
  "coordination.v1.Lease": "Says who holds something and until when: leader election and heartbeats.",
  "coordination.v1.LeaseSpec": "The holder, since when, and for how long after each renewal.",
  "core.v1.ConfigMap": "Configuration that isn't secret, as texts and bytes by key.",
  "core.v1.Container": "A program of a Pod: its image, command, environment and limits.",
  "core.v1.Event": "Tells that something happened to an object. Events are dropped after a while.",
  "core.v1.Namespace": "A room of names. Deleting it deletes everything in it.",
  "core.v1.NamespaceSpec": "What has to be done before the Namespace can go.",
  "core.v1.NamespaceStatus": "Whether the Namespace is Active or Terminating.",
  "core.v1.Node": "A machine that runs Pods.",
  "core.v1.PersistentVolumeClaim": "A request for storage that outlives Pods.",
  "core.v1.Pod": "Containers that run together on one node.",
  "core.v1.PodSpec": "The containers, volumes and placement that are wanted.",
  "core.v1.PodStatus": "How the Pod is, as its node last saw it.",
  "core.v1.Secret": "Passwords, keys and other small confidential data, as bytes by key in base64.",
  "core.v1.Service": "One stable name and address for a set of Pods.",
  "core.v1.ServiceSpec": "Its kind of address, its ports, and the labels of the Pods behind it.",
  "core.v1.ServiceAccount": "An identity for programs: Pods run as one and get tokens of it.",
  "events.v1.Event": "Tells that something happened to an object. Events are dropped after a while.",
  "meta.v1.LabelSelector": "Selects objects by their labels. An empty selector selects all.",
  "meta.v1.ObjectMeta": "Name, namespace, labels, owners and what else every object has.",
  "rbac.v1.ClusterRole": "A set of rules that say what may be done, for every namespace and for what is in none.",
  "rbac.v1.ClusterRoleBinding": "Grants a ClusterRole to users, groups and service accounts everywhere.",
  "rbac.v1.Role": "A set of rules that say what may be done within one namespace.",
  "rbac.v1.RoleBinding": "Grants a Role or ClusterRole to users, groups and service accounts within one namespace.",
};

/** The description of a built-in type by its short name, if it has one. */
export function descriptionOf(name: string): string | undefined {
  return Object.hasOwn(descriptions, name) ? descriptions[name] : undefined;
}

const fieldDescriptions = {
  apiVersion: "Group and version of the schema of this object, such as v1 or apps/v1.",
  kind: "What this object is, in CamelCase. It cannot change.",
  metadata: "Name, namespace, labels, owners and what else every object has.",
};

/** The description of a field that every object has. */
export function commonFieldDescription(field: keyof typeof fieldDescriptions): string {
  return fieldDescriptions[field];
}
