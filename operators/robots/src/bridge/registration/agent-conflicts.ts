/** An agent that uses the id of a robot. */
export interface AgentInstance {
  readonly instanceId: string;
  readonly hostname?: string;
}

/**
 * Detects agents that use the same robot id and displace each other. An agent that was restarted registers with a new instance id and the
 * old one never appears again; so an instance that registers again after another one has registered is a second, living agent.
 */
export class AgentConflicts {
  readonly #seen = new Map<string, AgentInstance[]>();

  /** Records a registration. Returns both agents if the robot id is used by two. */
  register(robotId: string, instance: AgentInstance): readonly [AgentInstance, AgentInstance] | undefined {
    const earlier = this.#seen.get(robotId) ?? [];
    const last = earlier.at(-1);
    const others = earlier.filter(({ instanceId }) => instanceId !== instance.instanceId);
    this.#seen.set(robotId, [...others, instance].slice(-2));
    if (last === undefined || last.instanceId === instance.instanceId || others.length === earlier.length) return undefined;
    return [last, instance];
  }

  /** Forgets a robot that was deleted. */
  robotDeleted(robotId: string): void {
    this.#seen.delete(robotId);
  }
}
