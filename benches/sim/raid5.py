#!/usr/bin/env python3
"""A RAID5 of four disks in SimPy, as small as it can be: clients that keep 256 requests in flight, a queue and a random
time for each disk, reads of one member, writes of two reads and two writes. No CPU, no governor, no stripe cache, no merging.

    raid5.py SECONDS    # of virtual time; prints events and I/Os as JSON
"""

import json
import random
import sys

import simpy

DISKS, DEPTH, SERVICE_S, READ_SHARE = 4, 256, 100e-6, 0.5


def disk_request(env, disk):
    with disk.request() as turn:
        yield turn
        yield env.timeout(random.expovariate(1 / SERVICE_S))


def client(env, disks, done):
    while True:
        data = random.randrange(DISKS)
        if random.random() < READ_SHARE:
            yield env.process(disk_request(env, disks[data]))
        else:
            members = (disks[data], disks[(data + 1) % DISKS])
            yield env.all_of([env.process(disk_request(env, disk)) for disk in members])
            yield env.all_of([env.process(disk_request(env, disk)) for disk in members])
        done[0] += 1


def main():
    random.seed(1)
    env = simpy.Environment()
    disks = [simpy.Resource(env, capacity=1) for _ in range(DISKS)]
    done = [0]
    for _ in range(DEPTH):
        env.process(client(env, disks, done))
    env.run(until=float(sys.argv[1]))
    print(json.dumps({"version": simpy.__version__, "events": next(env._eid), "ios": done[0]}))


main()
