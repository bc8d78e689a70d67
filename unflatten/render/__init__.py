"""Drawings of programs, graphs and modules: SVG, text for Graphviz, a page, and Model Explorer's JSON."""

from unflatten.render.as_dot import dot as dot
from unflatten.render.as_html import html as html
from unflatten.render.as_model_explorer import model_explorer as model_explorer
from unflatten.render.as_svg import svg as svg
from unflatten.render.picture import Cluster as Cluster
from unflatten.render.picture import Edge as Edge
from unflatten.render.picture import Node as Node
from unflatten.render.picture import Picture as Picture
from unflatten.render.picture import Shape as Shape
from unflatten.render.reading import picture as picture
from unflatten.render.reading import register as register

__all__ = ["Cluster", "Edge", "Node", "Picture", "Shape", "dot", "html", "model_explorer", "picture", "register", "svg"]
