import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";

/** A request to the agent of a Pod. */
export type Call =
  | {
      readonly method: "GetGroupOrder";
      readonly component: string;
      readonly scenario: string;
      readonly groups: readonly string[];
    }
  | {
      readonly method: "GetPodOrder";
      readonly group: string;
      readonly scenario: string;
      readonly pods: readonly string[];
      readonly roles: Readonly<Record<string, string>>;
    }
  | {
      readonly method: "ReloadConfig";
      readonly parameters: Readonly<Record<string, string>>;
      readonly hash: string;
      readonly token: string;
    }
  | {
      readonly method: "Failover";
      readonly target: string;
      readonly others: readonly string[];
      readonly epoch: number;
      readonly token: string;
      /** The Pod of the previous primary has been terminated. */
      readonly isPrimaryDown?: boolean;
      /** Replicas of the previous primary, those that do not respond included. Missing: the available data is enough. */
      readonly replicas?: number;
    }
  | {
      readonly method: "AssignRole";
      readonly role: "primary" | "replica";
      readonly primary: string;
      readonly epoch: number;
      readonly token: string;
    }
  | {
      readonly method: "SetMembers";
      readonly key: string;
      readonly members: readonly { readonly name: string; readonly host: string }[];
      readonly maxLagBytes: number;
      readonly token: string;
    }
  | { readonly method: "SetLogArchive"; readonly enabled: boolean; readonly token: string }
  | {
      readonly method: "SetCredentials";
      readonly sequence: number;
      readonly id: string;
      readonly password: string;
      /** Login of the password, for programs with one password per login. */
      readonly login?: string;
      readonly users: readonly {
        readonly name: string;
        readonly rules: readonly string[];
        readonly passwordHashes: readonly string[];
        readonly logins?: readonly { readonly name: string; readonly verifier: string }[];
      }[];
    }
  | {
      readonly method: "SetTokens";
      readonly sequence: number;
      readonly id: string;
      readonly agentToken: string;
      readonly tokenHashes: readonly string[];
    }
  /** Sent to the primary of the old version. */
  | { readonly method: "CheckUpgrade"; readonly version: string; readonly token: string }
  | { readonly method: "UpgradeData"; readonly token: string }
  /** `isRemoved`: the Pod does not return. */
  | { readonly method: "Stop"; readonly token: string; readonly isRemoved?: boolean };

/** Response of an agent. */
export type CallResult =
  | { readonly kind: "order"; readonly order: readonly string[] }
  | { readonly kind: "done" }
  | { readonly kind: "restart"; readonly parameters: readonly string[] }
  /** `mustTerminate`: the Pod of the primary must be terminated first. */
  | { readonly kind: "refused"; readonly message: string; readonly mustTerminate?: boolean }
  /** No response: the outcome is not known. */
  | { readonly kind: "unreachable"; readonly message: string };

/** A side effect requested by a pure decision. */
export type Effect =
  /** Writes the status, unless the object has changed since. */
  | {
      readonly kind: "status";
      readonly type: ResourceType;
      readonly object: DeepReadonly<KubernetesObject>;
      readonly status: object;
    }
  /** Sets annotations (null removes one), unless the object has changed since. */
  | {
      readonly kind: "annotate";
      readonly type: ResourceType;
      readonly object: DeepReadonly<KubernetesObject>;
      readonly annotations: Readonly<Record<string, string | null>>;
    }
  | { readonly kind: "apply"; readonly type: ResourceType; readonly object: DeepReadonly<KubernetesObject> }
  /** Creates an object that others may change later, unless it exists. */
  | { readonly kind: "create"; readonly type: ResourceType; readonly object: DeepReadonly<KubernetesObject> }
  | {
      readonly kind: "add-finalizer" | "remove-finalizer";
      readonly type: ResourceType;
      readonly object: DeepReadonly<KubernetesObject>;
      readonly finalizer: string;
    }
  /** Creates the access Secret with random values, unless it exists. */
  | { readonly kind: "access-secret"; readonly name: string; readonly object: DeepReadonly<KubernetesObject> }
  | {
      readonly kind: "delete";
      readonly type: ResourceType;
      readonly key: ObjectKey;
      readonly uid: string;
      readonly gracePeriodSeconds?: number;
    }
  /** `after` returns the status to record, or undefined. */
  | {
      readonly kind: "call";
      readonly ip: string;
      readonly call: Call;
      readonly after: (result: CallResult) => object | undefined;
    };

/** A decision. Effects are performed in order; a conflict on `status` drops the rest. */
export interface Decision {
  readonly effects: readonly Effect[];
  readonly requeueAfterMs?: number;
}
