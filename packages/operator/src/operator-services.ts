/** Names a service of type `T` in {@link OperatorServices}. Two keys are different even if their names are equal. */
export class ServiceKey<T> {
  readonly name: string;
  /** Type only: ties the key to the type of its service. */
  declare readonly service: T;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * State that the controllers and servers of one running operator share, for example the agents that a server has connected to and a
 * controller places work on. Each running operator has its own, so several can run in one process.
 *
 * **Example**
 *
 *     const agents = new ServiceKey<Agents>("agents");
 *     services.provide(agents, connectAgents()); // in a server's `start`
 *     services.get(agents).send(task); // in a reconcile: servers start before controllers
 */
export class OperatorServices {
  readonly #services = new Map<ServiceKey<unknown>, unknown>();

  /** Registers a service, replacing the one that was registered under the same key. */
  provide<T>(key: ServiceKey<T>, service: T): void {
    this.#services.set(key, service);
  }

  /** **Errors**: throws if the service has not been provided. */
  get<T>(key: ServiceKey<T>): T {
    if (!this.#services.has(key)) throw new TypeError(`operator service ${JSON.stringify(key.name)} is not provided`);
    return this.#services.get(key) as T;
  }
}
