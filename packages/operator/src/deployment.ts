/**
 * How an operator runs in a cluster, as far as it differs from the other operators. `keelson install`, the chart and
 * `deploy/keelson.yaml` are generated from it.
 */
export interface OperatorDeployment {
  /** Ports of the servers that clients connect to. Default: none. */
  readonly ports?: readonly DeploymentPort[];
  /** Flags that are values of the chart. Others are passed in the `extraArgs` value. Default: none. */
  readonly settings?: readonly DeploymentSetting[];
  /**
   * Why at most one replica may run, for example because clients must reach the leader and a Service cannot select it. Default: any
   * number of replicas may run, and one leads.
   */
  readonly singleReplicaReason?: string;
  /** The image with the programs of the Pods that this operator creates. Default: it creates no Pods that need one. */
  readonly toolImage?: {
    /** Environment variable of the operator with the image. */
    readonly variable: string;
    /** Name of the image next to Keelson's, such as `sandbox-agent`. Default: the operator's own image. */
    readonly name?: string;
  };
}

/** A port that clients of an operator connect to. */
export interface DeploymentPort {
  /** Name of the port in Pods and Services, at most 15 characters. */
  readonly name: string;
  readonly port: number;
  /** Flag of the listen address, without dashes. */
  readonly bindAddressFlag: string;
  /** Flag of the port, without dashes. */
  readonly portFlag: string;
  /** Protocol in the sense of `Service.spec.ports.appProtocol`. */
  readonly appProtocol?: string;
}

/** A flag of the operator or one of its servers as a value of the chart. Its description and default are those of the flag. */
export interface DeploymentSetting {
  /** Name of the value: `namespace` for `robots.namespace`. */
  readonly name: string;
  /** Name of the flag, without dashes. */
  readonly flag: string;
}
