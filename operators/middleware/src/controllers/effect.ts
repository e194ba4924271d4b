import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";

/** A question or an order to the agent of a Pod. */
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
    }
  | {
      readonly method: "AssignRole";
      readonly role: "primary" | "replica";
      readonly primary: string;
      readonly epoch: number;
      readonly token: string;
    }
  | { readonly method: "Stop"; readonly token: string };

/** What an agent answered. */
export type CallResult =
  | { readonly kind: "order"; readonly order: readonly string[] }
  | { readonly kind: "done" }
  | { readonly kind: "restart"; readonly parameters: readonly string[] }
  | { readonly kind: "refused"; readonly message: string }
  /** No answer: it may or may not have been done. */
  | { readonly kind: "unreachable"; readonly message: string };

/** Something to do that a decision asks for. Decisions are pure; whoever carries these out is not. */
export type Effect =
  /** Writes the status, unless the object has moved on from `object`. */
  | {
      readonly kind: "status";
      readonly type: ResourceType;
      readonly object: DeepReadonly<KubernetesObject>;
      readonly status: object;
    }
  /** Sets annotations (null takes one away), unless the object has moved on. */
  | {
      readonly kind: "annotate";
      readonly type: ResourceType;
      readonly object: DeepReadonly<KubernetesObject>;
      readonly annotations: Readonly<Record<string, string | null>>;
    }
  | { readonly kind: "apply"; readonly type: ResourceType; readonly object: DeepReadonly<KubernetesObject> }
  /** Makes an object that has to have parts made at random; nothing where it is there. */
  | { readonly kind: "access-secret"; readonly name: string; readonly object: DeepReadonly<KubernetesObject> }
  | { readonly kind: "delete"; readonly type: ResourceType; readonly key: ObjectKey; readonly uid: string }
  /** `after` says what becomes of the status then. */
  | {
      readonly kind: "call";
      readonly ip: string;
      readonly call: Call;
      readonly after: (result: CallResult) => object | undefined;
    };

/** What a decision comes to. Effects are carried out in this order; a `status` that is refused ends them. */
export interface Decision {
  readonly effects: readonly Effect[];
  readonly requeueAfterMs?: number;
}
