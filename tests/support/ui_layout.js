// Draws a made-up cloud and checks the picture; PROJECTS, NETWORKS and OPEN are replaced by test_ui_modules.py.
(async () => {
  const {buildTopology} = await import('/ui/js/data/topology.js');
  const {buildScene} = await import('/ui/js/graph/scene.js');
  const {layout, pathOf} = await import('/ui/js/graph/layout.js');
  const tables = {network: new Map(), subnet: new Map(), router: new Map(), port: new Map(), floatingip: new Map()};
  const add = (kind, row) => tables[kind].set(row.id, row);
  for (let p = 0; p < PROJECTS; p += 1) {
    add('router', {id: `r${p}`, name: `r${p}`, project_id: `p${p}`, external_gateway_info: {network_id: `x${p % 2}`, external_fixed_ips: []}});
    for (let n = 0; n < NETWORKS; n += 1) {
      const id = `n${p}-${n}`;
      add('network', {id, name: id, project_id: `p${p}`});
      if (n % 3) add('port', {id: `i${id}`, network_id: id, device_owner: 'network:router_interface', device_id: `r${p}`, fixed_ips: []});
      if (n === 4) add('port', {id: `j${id}`, network_id: id, device_owner: 'network:router_interface', device_id: `r${(p + 1) % PROJECTS}`, fixed_ips: []});
      for (let k = 0; k < n % 9; k += 1) add('port', {id: `v${id}-${k}`, network_id: id, device_owner: 'compute:x', device_id: `d${p}-${k}`, fixed_ips: [], project_id: `p${p}`});
    }
  }
  for (const id of ['x0', 'x1']) add('network', {id, name: id, 'router:external': true, project_id: 'admin'});
  const expanded = new Map(OPEN ? [...tables.router.keys()].flatMap((id) => [[`router:${id}`, true], [`project:p${id.slice(1)}`, true], [`alone:p${id.slice(1)}`, true]]) : []);
  const draw = () => layout(buildScene(buildTopology(tables), {project: '', expanded}));
  const [a, b] = [draw(), draw()];
  const overlaps = [];
  for (let i = 0; i < a.nodes.length; i += 1) for (let j = i + 1; j < a.nodes.length; j += 1) {
    const [m, n] = [a.nodes[i], a.nodes[j]];
    if (m.x < n.x + n.w && n.x < m.x + m.w && m.y < n.y + n.h && n.y < m.y + m.h) overlaps.push([m.key, n.key]);
  }
  const inside = (node, [x, y]) => x > node.x + 1 && x < node.x + node.w - 1 && y > node.y + 1 && y < node.y + node.h - 1;
  const crossed = a.edges.filter((e) => !e.curved).flatMap((e) => e.points.slice(1).flatMap((end, at) => {
    const start = e.points[at];
    const middle = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2];
    return a.nodes.filter((node) => inside(node, middle)).map((node) => `${e.key} ${node.key}`);
  }));
  const same = JSON.stringify([a.nodes.map((n) => [n.key, n.x, n.y]), a.edges]) === JSON.stringify([b.nodes.map((n) => [n.key, n.x, n.y]), b.edges]);
  const ends = new Set(a.nodes.map((n) => n.key));
  const loose = a.edges.filter((e) => !ends.has(e.from) || !ends.has(e.to)).map((e) => e.key);
  const paths = a.edges.map(pathOf).filter((path) => /NaN|undefined/.test(path));
  const types = {};
  for (const node of a.nodes) types[node.type] = (types[node.type] ?? 0) + 1;
  return {overlaps: overlaps.slice(0, 5), crossed: crossed.slice(0, 5), same, loose, paths, types};
})()
